'use strict';
for (const table of document.querySelectorAll('table.sortable')) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const number = (row, k) => {
    const found = row.cells[k].textContent.replace(/,/g, '').match(/^[^\d–-]*(-?\d+(\.\d+)?(e[+-]?\d+)?)/i);
    return found ? parseFloat(found[1]) : NaN;
  };
  const sort = (head, k) => {
    const rows = [...body.rows];
    const empty = (row) => /^\s*–?\s*$/.test(row.cells[k].textContent);
    const numeric = rows.every((row) => empty(row) || !isNaN(number(row, k)));
    const last = head.getAttribute('aria-sort');
    const falling = last ? last === 'ascending' : numeric;
    const compare = (a, b) => numeric ? number(a, k) - number(b, k) :
      a.cells[k].textContent.localeCompare(b.cells[k].textContent, undefined, {numeric: true});
    rows.sort((a, b) => empty(a) - empty(b) || (empty(a) ? 0 : falling ? compare(b, a) : compare(a, b)));
    for (const other of heads) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', falling ? 'descending' : 'ascending');
    body.append(...rows);
  };
  heads.forEach((head, k) => {
    head.tabIndex = 0;
    head.addEventListener('click', () => sort(head, k));
    head.addEventListener('keydown', (event) => { if (event.key === 'Enter') sort(head, k); });
  });
}
