#include "core/files/unicode_forms.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/files/text.h"

namespace saccade {
namespace {

// By the second character of a pair: first characters, each followed by what the pair is as one (Unicode 14,
// UnicodeData.txt, without the composition exclusions; characters of 16 bits).
struct Pairs {
  char32_t second;
  std::u16string_view firsts;
};
// clang-format off
constexpr Pairs kPairs[] = {
    {0x0300, u"A\u00C0E\u00C8I\u00CCO\u00D2U\u00D9a\u00E0e\u00E8i\u00ECo\u00F2u\u00F9\u00DC\u01DB"
             u"\u00FC\u01DCN\u01F8n\u01F9\u0415\u0400\u0418\u040D\u0435\u0450\u0438\u045D\u0112\u1E14"
             u"\u0113\u1E15\u014C\u1E50\u014D\u1E51W\u1E80w\u1E81\u00C2\u1EA6\u00E2\u1EA7\u0102\u1EB0"
             u"\u0103\u1EB1\u00CA\u1EC0\u00EA\u1EC1\u00D4\u1ED2\u00F4\u1ED3\u01A0\u1EDC\u01A1\u1EDD"
             u"\u01AF\u1EEA\u01B0\u1EEBY\u1EF2y\u1EF3\u1F00\u1F02\u1F01\u1F03\u1F08\u1F0A\u1F09\u1F0B"
             u"\u1F10\u1F12\u1F11\u1F13\u1F18\u1F1A\u1F19\u1F1B\u1F20\u1F22\u1F21\u1F23\u1F28\u1F2A"
             u"\u1F29\u1F2B\u1F30\u1F32\u1F31\u1F33\u1F38\u1F3A\u1F39\u1F3B\u1F40\u1F42\u1F41\u1F43"
             u"\u1F48\u1F4A\u1F49\u1F4B\u1F50\u1F52\u1F51\u1F53\u1F59\u1F5B\u1F60\u1F62\u1F61\u1F63"
             u"\u1F68\u1F6A\u1F69\u1F6B\u03B1\u1F70\u03B5\u1F72\u03B7\u1F74\u03B9\u1F76\u03BF\u1F78"
             u"\u03C5\u1F7A\u03C9\u1F7C\u0391\u1FBA\u0395\u1FC8\u0397\u1FCA\u1FBF\u1FCD\u03CA\u1FD2"
             u"\u0399\u1FDA\u1FFE\u1FDD\u03CB\u1FE2\u03A5\u1FEA\u00A8\u1FED\u039F\u1FF8\u03A9\u1FFA"},
    {0x0301, u"A\u00C1E\u00C9I\u00CDO\u00D3U\u00DAY\u00DDa\u00E1e\u00E9i\u00EDo\u00F3u\u00FAy\u00FDC\u0106"
             u"c\u0107L\u0139l\u013AN\u0143n\u0144R\u0154r\u0155S\u015As\u015BZ\u0179z\u017A\u00DC\u01D7"
             u"\u00FC\u01D8G\u01F4g\u01F5\u00C5\u01FA\u00E5\u01FB\u00C6\u01FC\u00E6\u01FD\u00D8\u01FE"
             u"\u00F8\u01FF\u00A8\u0385\u0391\u0386\u0395\u0388\u0397\u0389\u0399\u038A\u039F\u038C"
             u"\u03A5\u038E\u03A9\u038F\u03CA\u0390\u03B1\u03AC\u03B5\u03AD\u03B7\u03AE\u03B9\u03AF"
             u"\u03CB\u03B0\u03BF\u03CC\u03C5\u03CD\u03C9\u03CE\u03D2\u03D3\u0413\u0403\u041A\u040C"
             u"\u0433\u0453\u043A\u045C\u00C7\u1E08\u00E7\u1E09\u0112\u1E16\u0113\u1E17\u00CF\u1E2E"
             u"\u00EF\u1E2FK\u1E30k\u1E31M\u1E3Em\u1E3F\u00D5\u1E4C\u00F5\u1E4D\u014C\u1E52\u014D\u1E53"
             u"P\u1E54p\u1E55\u0168\u1E78\u0169\u1E79W\u1E82w\u1E83\u00C2\u1EA4\u00E2\u1EA5\u0102\u1EAE"
             u"\u0103\u1EAF\u00CA\u1EBE\u00EA\u1EBF\u00D4\u1ED0\u00F4\u1ED1\u01A0\u1EDA\u01A1\u1EDB"
             u"\u01AF\u1EE8\u01B0\u1EE9\u1F00\u1F04\u1F01\u1F05\u1F08\u1F0C\u1F09\u1F0D\u1F10\u1F14"
             u"\u1F11\u1F15\u1F18\u1F1C\u1F19\u1F1D\u1F20\u1F24\u1F21\u1F25\u1F28\u1F2C\u1F29\u1F2D"
             u"\u1F30\u1F34\u1F31\u1F35\u1F38\u1F3C\u1F39\u1F3D\u1F40\u1F44\u1F41\u1F45\u1F48\u1F4C"
             u"\u1F49\u1F4D\u1F50\u1F54\u1F51\u1F55\u1F59\u1F5D\u1F60\u1F64\u1F61\u1F65\u1F68\u1F6C"
             u"\u1F69\u1F6D\u1FBF\u1FCE\u1FFE\u1FDE"},
    {0x0302, u"A\u00C2E\u00CAI\u00CEO\u00D4U\u00DBa\u00E2e\u00EAi\u00EEo\u00F4u\u00FBC\u0108c\u0109G\u011C"
             u"g\u011DH\u0124h\u0125J\u0134j\u0135S\u015Cs\u015DW\u0174w\u0175Y\u0176y\u0177Z\u1E90z\u1E91"
             u"\u1EA0\u1EAC\u1EA1\u1EAD\u1EB8\u1EC6\u1EB9\u1EC7\u1ECC\u1ED8\u1ECD\u1ED9"},
    {0x0303, u"A\u00C3N\u00D1O\u00D5a\u00E3n\u00F1o\u00F5I\u0128i\u0129U\u0168u\u0169V\u1E7Cv\u1E7D"
             u"\u00C2\u1EAA\u00E2\u1EAB\u0102\u1EB4\u0103\u1EB5E\u1EBCe\u1EBD\u00CA\u1EC4\u00EA\u1EC5"
             u"\u00D4\u1ED6\u00F4\u1ED7\u01A0\u1EE0\u01A1\u1EE1\u01AF\u1EEE\u01B0\u1EEFY\u1EF8y\u1EF9"},
    {0x0304, u"A\u0100a\u0101E\u0112e\u0113I\u012Ai\u012BO\u014Co\u014DU\u016Au\u016B\u00DC\u01D5"
             u"\u00FC\u01D6\u00C4\u01DE\u00E4\u01DF\u0226\u01E0\u0227\u01E1\u00C6\u01E2\u00E6\u01E3"
             u"\u01EA\u01EC\u01EB\u01ED\u00D6\u022A\u00F6\u022B\u00D5\u022C\u00F5\u022D\u022E\u0230"
             u"\u022F\u0231Y\u0232y\u0233\u0418\u04E2\u0438\u04E3\u0423\u04EE\u0443\u04EFG\u1E20g\u1E21"
             u"\u1E36\u1E38\u1E37\u1E39\u1E5A\u1E5C\u1E5B\u1E5D\u03B1\u1FB1\u0391\u1FB9\u03B9\u1FD1"
             u"\u0399\u1FD9\u03C5\u1FE1\u03A5\u1FE9"},
    {0x0306, u"A\u0102a\u0103E\u0114e\u0115G\u011Eg\u011FI\u012Ci\u012DO\u014Eo\u014FU\u016Cu\u016D"
             u"\u0423\u040E\u0418\u0419\u0438\u0439\u0443\u045E\u0416\u04C1\u0436\u04C2\u0410\u04D0"
             u"\u0430\u04D1\u0415\u04D6\u0435\u04D7\u0228\u1E1C\u0229\u1E1D\u1EA0\u1EB6\u1EA1\u1EB7"
             u"\u03B1\u1FB0\u0391\u1FB8\u03B9\u1FD0\u0399\u1FD8\u03C5\u1FE0\u03A5\u1FE8"},
    {0x0307, u"C\u010Ac\u010BE\u0116e\u0117G\u0120g\u0121I\u0130Z\u017Bz\u017CA\u0226a\u0227O\u022Eo\u022F"
             u"B\u1E02b\u1E03D\u1E0Ad\u1E0BF\u1E1Ef\u1E1FH\u1E22h\u1E23M\u1E40m\u1E41N\u1E44n\u1E45P\u1E56"
             u"p\u1E57R\u1E58r\u1E59S\u1E60s\u1E61\u015A\u1E64\u015B\u1E65\u0160\u1E66\u0161\u1E67"
             u"\u1E62\u1E68\u1E63\u1E69T\u1E6At\u1E6BW\u1E86w\u1E87X\u1E8Ax\u1E8BY\u1E8Ey\u1E8F"
             u"\u017F\u1E9B"},
    {0x0308, u"A\u00C4E\u00CBI\u00CFO\u00D6U\u00DCa\u00E4e\u00EBi\u00EFo\u00F6u\u00FCy\u00FFY\u0178"
             u"\u0399\u03AA\u03A5\u03AB\u03B9\u03CA\u03C5\u03CB\u03D2\u03D4\u0415\u0401\u0406\u0407"
             u"\u0435\u0451\u0456\u0457\u0410\u04D2\u0430\u04D3\u04D8\u04DA\u04D9\u04DB\u0416\u04DC"
             u"\u0436\u04DD\u0417\u04DE\u0437\u04DF\u0418\u04E4\u0438\u04E5\u041E\u04E6\u043E\u04E7"
             u"\u04E8\u04EA\u04E9\u04EB\u042D\u04EC\u044D\u04ED\u0423\u04F0\u0443\u04F1\u0427\u04F4"
             u"\u0447\u04F5\u042B\u04F8\u044B\u04F9H\u1E26h\u1E27\u00D5\u1E4E\u00F5\u1E4F\u016A\u1E7A"
             u"\u016B\u1E7BW\u1E84w\u1E85X\u1E8Cx\u1E8Dt\u1E97"},
    {0x0309, u"A\u1EA2a\u1EA3\u00C2\u1EA8\u00E2\u1EA9\u0102\u1EB2\u0103\u1EB3E\u1EBAe\u1EBB\u00CA\u1EC2"
             u"\u00EA\u1EC3I\u1EC8i\u1EC9O\u1ECEo\u1ECF\u00D4\u1ED4\u00F4\u1ED5\u01A0\u1EDE\u01A1\u1EDF"
             u"U\u1EE6u\u1EE7\u01AF\u1EEC\u01B0\u1EEDY\u1EF6y\u1EF7"},
    {0x030A, u"A\u00C5a\u00E5U\u016Eu\u016Fw\u1E98y\u1E99"},
    {0x030B, u"O\u0150o\u0151U\u0170u\u0171\u0423\u04F2\u0443\u04F3"},
    {0x030C, u"C\u010Cc\u010DD\u010Ed\u010FE\u011Ae\u011BL\u013Dl\u013EN\u0147n\u0148R\u0158r\u0159S\u0160"
             u"s\u0161T\u0164t\u0165Z\u017Dz\u017EA\u01CDa\u01CEI\u01CFi\u01D0O\u01D1o\u01D2U\u01D3u\u01D4"
             u"\u00DC\u01D9\u00FC\u01DAG\u01E6g\u01E7K\u01E8k\u01E9\u01B7\u01EE\u0292\u01EFj\u01F0H\u021E"
             u"h\u021F"},
    {0x030F, u"A\u0200a\u0201E\u0204e\u0205I\u0208i\u0209O\u020Co\u020DR\u0210r\u0211U\u0214u\u0215"
             u"\u0474\u0476\u0475\u0477"},
    {0x0311, u"A\u0202a\u0203E\u0206e\u0207I\u020Ai\u020BO\u020Eo\u020FR\u0212r\u0213U\u0216u\u0217"},
    {0x0313, u"\u03B1\u1F00\u0391\u1F08\u03B5\u1F10\u0395\u1F18\u03B7\u1F20\u0397\u1F28\u03B9\u1F30"
             u"\u0399\u1F38\u03BF\u1F40\u039F\u1F48\u03C5\u1F50\u03C9\u1F60\u03A9\u1F68\u03C1\u1FE4"},
    {0x0314, u"\u03B1\u1F01\u0391\u1F09\u03B5\u1F11\u0395\u1F19\u03B7\u1F21\u0397\u1F29\u03B9\u1F31"
             u"\u0399\u1F39\u03BF\u1F41\u039F\u1F49\u03C5\u1F51\u03A5\u1F59\u03C9\u1F61\u03A9\u1F69"
             u"\u03C1\u1FE5\u03A1\u1FEC"},
    {0x031B, u"O\u01A0o\u01A1U\u01AFu\u01B0"},
    {0x0323, u"B\u1E04b\u1E05D\u1E0Cd\u1E0DH\u1E24h\u1E25K\u1E32k\u1E33L\u1E36l\u1E37M\u1E42m\u1E43N\u1E46"
             u"n\u1E47R\u1E5Ar\u1E5BS\u1E62s\u1E63T\u1E6Ct\u1E6DV\u1E7Ev\u1E7FW\u1E88w\u1E89Z\u1E92z\u1E93"
             u"A\u1EA0a\u1EA1E\u1EB8e\u1EB9I\u1ECAi\u1ECBO\u1ECCo\u1ECD\u01A0\u1EE2\u01A1\u1EE3U\u1EE4"
             u"u\u1EE5\u01AF\u1EF0\u01B0\u1EF1Y\u1EF4y\u1EF5"},
    {0x0324, u"U\u1E72u\u1E73"},
    {0x0325, u"A\u1E00a\u1E01"},
    {0x0326, u"S\u0218s\u0219T\u021At\u021B"},
    {0x0327, u"C\u00C7c\u00E7G\u0122g\u0123K\u0136k\u0137L\u013Bl\u013CN\u0145n\u0146R\u0156r\u0157S\u015E"
             u"s\u015FT\u0162t\u0163E\u0228e\u0229D\u1E10d\u1E11H\u1E28h\u1E29"},
    {0x0328, u"A\u0104a\u0105E\u0118e\u0119I\u012Ei\u012FU\u0172u\u0173O\u01EAo\u01EB"},
    {0x032D, u"D\u1E12d\u1E13E\u1E18e\u1E19L\u1E3Cl\u1E3DN\u1E4An\u1E4BT\u1E70t\u1E71U\u1E76u\u1E77"},
    {0x032E, u"H\u1E2Ah\u1E2B"},
    {0x0330, u"E\u1E1Ae\u1E1BI\u1E2Ci\u1E2DU\u1E74u\u1E75"},
    {0x0331, u"B\u1E06b\u1E07D\u1E0Ed\u1E0FK\u1E34k\u1E35L\u1E3Al\u1E3BN\u1E48n\u1E49R\u1E5Er\u1E5FT\u1E6E"
             u"t\u1E6FZ\u1E94z\u1E95h\u1E96"},
    {0x0338, u"\u2190\u219A\u2192\u219B\u2194\u21AE\u21D0\u21CD\u21D4\u21CE\u21D2\u21CF\u2203\u2204"
             u"\u2208\u2209\u220B\u220C\u2223\u2224\u2225\u2226\u223C\u2241\u2243\u2244\u2245\u2247"
             u"\u2248\u2249=\u2260\u2261\u2262\u224D\u226D<\u226E>\u226F\u2264\u2270\u2265\u2271"
             u"\u2272\u2274\u2273\u2275\u2276\u2278\u2277\u2279\u227A\u2280\u227B\u2281\u2282\u2284"
             u"\u2283\u2285\u2286\u2288\u2287\u2289\u22A2\u22AC\u22A8\u22AD\u22A9\u22AE\u22AB\u22AF"
             u"\u227C\u22E0\u227D\u22E1\u2291\u22E2\u2292\u22E3\u22B2\u22EA\u22B3\u22EB\u22B4\u22EC"
             u"\u22B5\u22ED"},
    {0x0342, u"\u1F00\u1F06\u1F01\u1F07\u1F08\u1F0E\u1F09\u1F0F\u1F20\u1F26\u1F21\u1F27\u1F28\u1F2E"
             u"\u1F29\u1F2F\u1F30\u1F36\u1F31\u1F37\u1F38\u1F3E\u1F39\u1F3F\u1F50\u1F56\u1F51\u1F57"
             u"\u1F59\u1F5F\u1F60\u1F66\u1F61\u1F67\u1F68\u1F6E\u1F69\u1F6F\u03B1\u1FB6\u00A8\u1FC1"
             u"\u03B7\u1FC6\u1FBF\u1FCF\u03B9\u1FD6\u03CA\u1FD7\u1FFE\u1FDF\u03C5\u1FE6\u03CB\u1FE7"
             u"\u03C9\u1FF6"},
    {0x0345, u"\u1F00\u1F80\u1F01\u1F81\u1F02\u1F82\u1F03\u1F83\u1F04\u1F84\u1F05\u1F85\u1F06\u1F86"
             u"\u1F07\u1F87\u1F08\u1F88\u1F09\u1F89\u1F0A\u1F8A\u1F0B\u1F8B\u1F0C\u1F8C\u1F0D\u1F8D"
             u"\u1F0E\u1F8E\u1F0F\u1F8F\u1F20\u1F90\u1F21\u1F91\u1F22\u1F92\u1F23\u1F93\u1F24\u1F94"
             u"\u1F25\u1F95\u1F26\u1F96\u1F27\u1F97\u1F28\u1F98\u1F29\u1F99\u1F2A\u1F9A\u1F2B\u1F9B"
             u"\u1F2C\u1F9C\u1F2D\u1F9D\u1F2E\u1F9E\u1F2F\u1F9F\u1F60\u1FA0\u1F61\u1FA1\u1F62\u1FA2"
             u"\u1F63\u1FA3\u1F64\u1FA4\u1F65\u1FA5\u1F66\u1FA6\u1F67\u1FA7\u1F68\u1FA8\u1F69\u1FA9"
             u"\u1F6A\u1FAA\u1F6B\u1FAB\u1F6C\u1FAC\u1F6D\u1FAD\u1F6E\u1FAE\u1F6F\u1FAF\u1F70\u1FB2"
             u"\u03B1\u1FB3\u03AC\u1FB4\u1FB6\u1FB7\u0391\u1FBC\u1F74\u1FC2\u03B7\u1FC3\u03AE\u1FC4"
             u"\u1FC6\u1FC7\u0397\u1FCC\u1F7C\u1FF2\u03C9\u1FF3\u03CE\u1FF4\u1FF6\u1FF7\u03A9\u1FFC"},
    {0x0653, u"\u0627\u0622"},
    {0x0654, u"\u0627\u0623\u0648\u0624\u064A\u0626\u06D5\u06C0\u06C1\u06C2\u06D2\u06D3"},
    {0x0655, u"\u0627\u0625"},
    {0x093C, u"\u0928\u0929\u0930\u0931\u0933\u0934"},
    {0x09BE, u"\u09C7\u09CB"},
    {0x09D7, u"\u09C7\u09CC"},
    {0x0B3E, u"\u0B47\u0B4B"},
    {0x0B56, u"\u0B47\u0B48"},
    {0x0B57, u"\u0B47\u0B4C"},
    {0x0BBE, u"\u0BC6\u0BCA\u0BC7\u0BCB"},
    {0x0BD7, u"\u0B92\u0B94\u0BC6\u0BCC"},
    {0x0C56, u"\u0C46\u0C48"},
    {0x0CC2, u"\u0CC6\u0CCA"},
    {0x0CD5, u"\u0CBF\u0CC0\u0CC6\u0CC7\u0CCA\u0CCB"},
    {0x0CD6, u"\u0CC6\u0CC8"},
    {0x0D3E, u"\u0D46\u0D4A\u0D47\u0D4B"},
    {0x0D57, u"\u0D46\u0D4C"},
    {0x0DCA, u"\u0DD9\u0DDA\u0DDC\u0DDD"},
    {0x0DCF, u"\u0DD9\u0DDC"},
    {0x0DDF, u"\u0DD9\u0DDE"},
    {0x102E, u"\u1025\u1026"},
    {0x1B35, u"\u1B05\u1B06\u1B07\u1B08\u1B09\u1B0A\u1B0B\u1B0C\u1B0D\u1B0E\u1B11\u1B12\u1B3A\u1B3B"
             u"\u1B3C\u1B3D\u1B3E\u1B40\u1B3F\u1B41\u1B42\u1B43"},
    {0x3099, u"\u304B\u304C\u304D\u304E\u304F\u3050\u3051\u3052\u3053\u3054\u3055\u3056\u3057\u3058"
             u"\u3059\u305A\u305B\u305C\u305D\u305E\u305F\u3060\u3061\u3062\u3064\u3065\u3066\u3067"
             u"\u3068\u3069\u306F\u3070\u3072\u3073\u3075\u3076\u3078\u3079\u307B\u307C\u3046\u3094"
             u"\u309D\u309E\u30AB\u30AC\u30AD\u30AE\u30AF\u30B0\u30B1\u30B2\u30B3\u30B4\u30B5\u30B6"
             u"\u30B7\u30B8\u30B9\u30BA\u30BB\u30BC\u30BD\u30BE\u30BF\u30C0\u30C1\u30C2\u30C4\u30C5"
             u"\u30C6\u30C7\u30C8\u30C9\u30CF\u30D0\u30D2\u30D3\u30D5\u30D6\u30D8\u30D9\u30DB\u30DC"
             u"\u30A6\u30F4\u30EF\u30F7\u30F0\u30F8\u30F1\u30F9\u30F2\u30FA\u30FD\u30FE"},
    {0x309A, u"\u306F\u3071\u3072\u3074\u3075\u3077\u3078\u307A\u307B\u307D\u30CF\u30D1\u30D2\u30D4"
             u"\u30D5\u30D7\u30D8\u30DA\u30DB\u30DD"}
};
// clang-format on

// Syllables of Hangul are made of two or three letters by rule (Unicode 14, 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr char32_t kLeadCount = 19, kVowelCount = 21, kTailCount = 28;

struct Tables {
  std::unordered_map<uint64_t, char32_t> whole;  // of a pair
  std::unordered_map<char32_t, std::pair<char32_t, char32_t>> parts;
};

uint64_t key_of(char32_t first, char32_t second) { return uint64_t{first} << 32 | second; }

const Tables& tables() {
  static const Tables kTables = [] {
    Tables t;
    for (const Pairs& pairs : kPairs)
      for (size_t i = 0; i + 1 < pairs.firsts.size(); i += 2) {
        const char32_t first = pairs.firsts[i], whole = pairs.firsts[i + 1];
        t.whole.emplace(key_of(first, pairs.second), whole);
        t.parts.emplace(whole, std::pair{first, pairs.second});
      }
    return t;
  }();
  return kTables;
}

// 0: the two do not make one.
char32_t whole_of(char32_t first, char32_t second) {
  if (first >= kLeads && first < kLeads + kLeadCount && second >= kVowels && second < kVowels + kVowelCount)
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTailCount;
  if (first >= kSyllables && first < kSyllables + kLeadCount * kVowelCount * kTailCount &&
      (first - kSyllables) % kTailCount == 0 && second > kTails && second < kTails + kTailCount)
    return first + (second - kTails);
  const auto it = tables().whole.find(key_of(first, second));
  return it == tables().whole.end() ? 0 : it->second;
}

void add_parts(char32_t code, std::u32string& out) {
  if (code >= kSyllables && code < kSyllables + kLeadCount * kVowelCount * kTailCount) {
    const char32_t place = code - kSyllables;
    out += kLeads + place / (kVowelCount * kTailCount);
    out += kVowels + place / kTailCount % kVowelCount;
    if (place % kTailCount > 0) out += kTails + place % kTailCount;
    return;
  }
  const auto it = tables().parts.find(code);
  if (it == tables().parts.end()) {
    out += code;
    return;
  }
  add_parts(it->second.first, out);
  out += it->second.second;
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; }) ||
         !is_utf8(text);
}

std::u32string decomposed_codes(std::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    add_parts(code_point(text.substr(0, length)), out);
    text.remove_prefix(length);
  }
  return out;
}

std::string utf8(const std::u32string& codes) {
  std::string out;
  for (const char32_t code : codes) {
    const int rest = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;  // bytes behind the first
    constexpr char32_t kFirst[] = {0, 0xC0, 0xE0, 0xF0};
    out += static_cast<char>(kFirst[rest] | code >> (6 * rest));
    for (int i = rest - 1; i >= 0; --i) out += static_cast<char>(0x80 | (code >> (6 * i) & 0x3F));
  }
  return out;
}

}  // namespace

std::string decomposed(std::string_view text) {
  return is_plain(text) ? std::string(text) : utf8(decomposed_codes(text));
}

std::vector<std::string> spellings_of(const std::string& text) {
  std::vector<std::string> all{text};
  if (is_plain(text)) return all;
  for (std::string& other : std::array{composed(text), decomposed(text)})
    if (other != text) all.push_back(std::move(other));
  return all;
}

std::string composed(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  std::u32string out;
  for (const char32_t code : decomposed_codes(text)) {
    const char32_t whole = out.empty() ? 0 : whole_of(out.back(), code);
    if (whole > 0)
      out.back() = whole;
    else
      out += code;
  }
  return utf8(out);
}

}  // namespace saccade
