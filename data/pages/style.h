// How pages look.
#pragma once

namespace saccade {

// Colours are custom properties: --s0 to --s7 those of the series of charts,
// chosen to be told apart on both grounds.
inline constexpr const char* kPageStyle = R"css(
:root{color-scheme:light dark;--ground:#fbfbfa;--card:#ffffff;--ink:#1d2126;--soft:#59626d;--line:#e2e4e7;--faint:#eff1f3;
--accent:#2468b4;--heat:36,104,180;--good:#1c7a4f;--bad:#b3382c;
--s0:#2468b4;--s1:#c9581c;--s2:#1c7f58;--s3:#7d54b8;--s4:#b52f63;--s5:#8a6a10;--s6:#1f8296;--s7:#6a7380}
@media(prefers-color-scheme:dark){:root{--ground:#14171a;--card:#1c2024;--ink:#e7e9ec;--soft:#a2abb5;--line:#333a41;
--faint:#262b31;--accent:#7db4f0;--heat:110,170,240;--good:#5fc492;--bad:#f08d80;
--s0:#7db4f0;--s1:#f0995f;--s2:#5fc492;--s3:#b99af0;--s4:#f087ac;--s5:#d6b656;--s6:#5fc3d6;--s7:#a2abb5}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI","Noto Sans",
"DejaVu Sans",sans-serif;font-variant-numeric:tabular-nums}
header,main,nav,footer{max-width:1240px;margin:0 auto;padding:0 20px}
header{padding-top:28px}
h1{font-size:26px;line-height:1.25;margin:0 0 4px;font-weight:650;overflow-wrap:anywhere}
h2{font-size:19px;margin:0 0 10px;font-weight:650}
h3{font-size:15px;margin:22px 0 8px;font-weight:650}
p{margin:6px 0 10px;max-width:80ch;overflow-wrap:anywhere}
.lead{color:var(--soft)}
.note{color:var(--soft);font-size:13.5px}
nav{position:sticky;top:0;z-index:2;background:var(--ground);border-bottom:1px solid var(--line);display:flex;
gap:4px 18px;flex-wrap:wrap;padding-top:9px;padding-bottom:9px;margin-top:12px}
nav a{color:var(--soft);text-decoration:none;font-size:13.5px;white-space:nowrap}
nav a:hover{color:var(--accent);text-decoration:underline}
section{padding:26px 0 6px;scroll-margin-top:56px}
section+section{border-top:1px solid var(--line)}
footer{color:var(--soft);font-size:13px;padding-top:18px;padding-bottom:40px}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(126px,1fr));gap:10px;margin:10px 0 16px}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 13px}
.tiles b{display:block;font-size:21px;line-height:1.25;font-weight:600;overflow-wrap:anywhere}
.tiles span{color:var(--soft);font-size:13px}
.scroll{overflow-x:auto;margin:8px 0 14px}
table{border-collapse:collapse;font-size:14px}
th,td{padding:5px 12px 5px 0;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:550;font-size:13px;white-space:nowrap;vertical-align:bottom}
.sortable th{cursor:pointer}
.sortable th:hover{color:var(--accent)}
th[aria-sort]::after{content:" \25B2"}
th[aria-sort=descending]::after{content:" \25BC"}
td:first-child{overflow-wrap:anywhere;min-width:7em;max-width:34em}
.n{text-align:right;white-space:nowrap}
tbody tr:hover{background:var(--faint)}
.barred{white-space:nowrap}
.bar{display:inline-block;width:90px;height:9px;background:var(--faint);border-radius:2px;margin-right:9px;overflow:hidden}
.bar i{display:block;height:100%;background:var(--accent)}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr));gap:14px;margin:12px 0}
.chart{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 12px 8px;margin:0;min-width:0}
.chart figcaption{font-size:13.5px;font-weight:600;margin-bottom:3px;overflow-wrap:anywhere}
.chart figcaption small{font-weight:400;color:var(--soft);font-size:12.5px}
.chart svg{display:block;width:100%;height:auto}
svg text{font-size:11px;fill:var(--soft);font-family:inherit}
svg .grid{stroke:var(--line);stroke-width:1}
svg .axis{stroke:var(--soft);stroke-width:1}
svg .mark{stroke:var(--soft);stroke-width:1;stroke-dasharray:3 3}
svg .curve{fill:none;stroke-width:1.7;stroke-linejoin:round;stroke-linecap:round}
svg .faint{opacity:.28;stroke-width:1.2}
.legend{display:flex;flex-wrap:wrap;gap:1px 13px;font-size:12.5px;color:var(--soft);margin-top:3px}
.legend i{display:inline-block;width:12px;height:3px;border-radius:2px;margin-right:5px;vertical-align:middle}
.legend span{overflow-wrap:anywhere}
.run{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:7px}
.pictures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,180px),1fr));gap:14px;margin:12px 0;align-items:start}
.wide{grid-template-columns:repeat(auto-fill,minmax(min(100%,420px),1fr))}
.picture{margin:0;min-width:0}
.picture img{display:block;max-width:100%;height:auto;border-radius:5px;background:var(--faint)}
.picture figcaption{font-size:12.5px;color:var(--soft);margin-top:5px;line-height:1.4;overflow-wrap:anywhere}
.picture figcaption b{color:var(--ink);font-weight:550}
.matrix td,.matrix th{padding:5px 9px;border:1px solid var(--line);text-align:right;white-space:nowrap}
.matrix th:first-child,.matrix .corner{text-align:left}
.matrix th{max-width:13em;overflow:hidden;text-overflow:ellipsis}
.matrix thead th{color:var(--ink)}
.matrix .hit{font-weight:650}
.matrix .zero{color:var(--soft);opacity:.55}
details{margin:10px 0}
summary{cursor:pointer;color:var(--accent);font-size:14px}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 14px;overflow-x:auto;font-size:12.5px;
line-height:1.45}
code{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:.93em}
.good{color:var(--good)}.bad{color:var(--bad)}
@media(max-width:560px){header,main,nav,footer{padding-left:13px;padding-right:13px}nav{position:static}
h1{font-size:22px}.pictures{grid-template-columns:repeat(auto-fill,minmax(min(100%,150px),1fr))}
.wide{grid-template-columns:1fr}.bar{width:54px}}
@media print{nav{display:none}section{break-inside:auto}.chart,.picture,.tiles>*,tr{break-inside:avoid}}
)css";

}  // namespace saccade
