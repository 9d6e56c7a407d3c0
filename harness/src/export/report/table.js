// SPDX-License-Identifier: MIT OR Apache-2.0
// Tables of any length ----------------------------------------------------------------------------------------------

let tables = 0;

/**
 * A table in which only the visible rows exist. A column has: name, width (of a grid), cell(row): text or element,
 * number, whole (of the whole run, whatever task is chosen), key(row) to sort by, share(row) from 0 to 1 for a bar, title(row).
 */
class Table {
    constructor(host, { label, columns, most = () => 400, opens, look, moved }) {
        Object.assign(this, { columns, most, opens, look, moved, order: [], active: -1, sorted: -1, descending: true });
        this.id = `table${tables++}`;
        this.head = make('div', { class: 'head', role: 'row' });
        this.size = make('div');
        this.body = make('div', { class: opens ? 'body opens' : 'body', role: 'rowgroup' }, this.size);
        this.table = make('div', { class: 'table', role: 'grid', 'aria-label': label, tabindex: '0' },
            this.head, this.body);
        this.grid = columns.map((column) => column.width).join(' ');
        // A table with less room than this is scrolled; its first column stays visible.
        const least = columns.reduce((sum, { width }) => sum + Number(/[\d.]+(?=rem)/.exec(width)?.[0] ?? 4), 0);
        this.table.style.setProperty('--least', `${least}rem`);
        this.heads = make('div', { class: 'heads', role: 'presentation' });
        this.head.append(this.heads);
        this.heads.style.gridTemplateColumns = this.grid;
        columns.forEach((column, index) => {
            const content = column.key
                ? make('button', { type: 'button', title: column.hint, onclick: () => this.sort(index) }, column.name)
                : make('span', { class: 'label', title: column.hint }, column.name);
            this.heads.append(make('div', { role: 'columnheader', class: `${column.number ? 'number' : ''}${column.whole ? ' of-run' : ''}` }, content));
        });
        this.body.addEventListener('scroll', () => {
            this.head.scrollLeft = this.body.scrollLeft;
            this.draw();
        }, { passive: true });
        this.table.addEventListener('keydown', (event) => this.key(event));
        this.size.addEventListener('click', (event) => {
            const row = event.target.closest('.row');
            if (!row || String(getSelection())) return;
            this.activate(Number(row.dataset.at));
            if (this.opens) this.opens(this.order[this.active]);
        });
        new ResizeObserver(() => this.draw()).observe(this.body);
        host.replaceChildren(this.table);
    }

    /** Shows these rows; the sorting stays as it was. */
    show(rows) {
        this.given = rows;
        this.order = [...rows];
        if (this.sorted >= 0) this.arrange();
        this.active = -1;
        this.body.scrollTop = 0;
        this.resize();
    }

    resize() {
        const height = this.order.length * ROW_PX;
        this.size.style.height = `${height}px`;
        this.size.style.position = 'relative';
        this.body.style.height = `${Math.max(ROW_PX, Math.min(height, this.most()))}px`;
        this.table.setAttribute('aria-rowcount', this.order.length + 1);
        this.drawn = null;
        this.draw();
    }

    sort(index, descending) {
        const ofNumbers = Boolean(this.columns[index].number);
        this.descending = descending ?? (this.sorted === index ? !this.descending : ofNumbers);
        this.sorted = index;
        [...this.heads.children].forEach((head, at) => {
            if (at === index) head.setAttribute('aria-sort', this.descending ? 'descending' : 'ascending');
            else head.removeAttribute('aria-sort');
        });
        const active = this.order[this.active];
        this.order = [...this.given];
        this.arrange();
        this.active = this.order.indexOf(active);
        this.body.scrollTop = 0;
        this.redraw();
    }

    arrange() {
        const { key } = this.columns[this.sorted];
        const sign = this.descending ? -1 : 1;
        // A stable sort: equal rows stay in the order of the data.
        this.order.sort((one, other) => {
            const [a, b] = [key(one), key(other)];
            return a < b ? -sign : a > b ? sign : 0;
        });
    }

    redraw() {
        this.drawn = null;
        this.draw();
    }

    draw() {
        const top = this.body.scrollTop;
        const first = Math.max(0, Math.floor(top / ROW_PX) - SPARE_ROWS);
        const last = Math.min(this.order.length, Math.ceil((top + this.body.clientHeight) / ROW_PX) + SPARE_ROWS);
        if (this.drawn && this.drawn[0] === first && this.drawn[1] === last) return;
        this.drawn = [first, last];
        const rows = [];
        for (let at = first; at < last; at++) rows.push(this.row(at));
        if (this.order.length === 0) rows.push(make('div', { class: 'none' }, 'none'));
        this.size.replaceChildren(...rows);
        const shown = this.active >= first && this.active < last;
        if (shown) this.table.setAttribute('aria-activedescendant', `${this.id}-${this.active}`);
        else this.table.removeAttribute('aria-activedescendant');
    }

    row(at) {
        const row = this.order[at];
        const element = make('div', { class: 'row', role: 'row', id: `${this.id}-${at}`, 'aria-rowindex': at + 2 });
        element.dataset.at = at;
        element.style.top = `${at * ROW_PX}px`;
        element.style.gridTemplateColumns = this.grid;
        if (at === this.active) element.classList.add('active');
        for (const column of this.columns) {
            const cell = make('div', { role: 'gridcell', class: column.class ?? '' }, column.cell(row) ?? '');
            if (column.number) cell.classList.add('number');
            if (column.share) {
                cell.classList.add('share');
                cell.style.setProperty('--part', Math.min(1, column.share(row)).toFixed(4));
            }
            if (column.title) cell.title = column.title(row);
            element.append(cell);
        }
        this.look?.(row, element);
        return element;
    }

    /** Selects a row for the keyboard, and scrolls to it. */
    activate(at, toMiddle = false) {
        this.active = Math.max(-1, Math.min(this.order.length - 1, at));
        const top = this.active * ROW_PX;
        const height = this.body.clientHeight;
        if (toMiddle && (top < this.body.scrollTop || top + ROW_PX > this.body.scrollTop + height)) {
            this.body.scrollTop = top - height / 2;
        } else if (top < this.body.scrollTop) this.body.scrollTop = top;
        else if (top + ROW_PX > this.body.scrollTop + height) this.body.scrollTop = top + ROW_PX - height;
        this.redraw();
    }

    key(event) {
        if (event.target !== this.table || event.ctrlKey || event.metaKey || event.altKey) return;
        const page = Math.max(1, Math.floor(this.body.clientHeight / ROW_PX) - 1);
        const to = {
            ArrowDown: this.active + 1,
            ArrowUp: Math.max(0, this.active - 1),
            PageDown: this.active + page,
            PageUp: Math.max(0, this.active - page),
            Home: 0,
            End: this.order.length - 1,
        }[event.key];
        if (to !== undefined) {
            this.activate(to);
            this.moved?.(this.order[this.active]);
        } else if (event.key === 'Enter' && this.active >= 0) this.opens?.(this.order[this.active]);
        else return;
        event.preventDefault();
    }
}

/** Text of a cell in a Markdown table: one line, with all markup escaped. */
const inMarkdown = (text) => String(text).replace(/[\\`*_{}[\]<>|~#]/g, '\\$&').replace(/\s+/g, ' ').trim();

/** A table as Markdown; `numbers` tells which columns have numbers. */
function markdown(heads, numbers, rows) {
    const line = (cells) => `| ${cells.join(' | ')} |`;
    return `${[line(heads.map(inMarkdown)), line(numbers.map((number) => (number ? '---:' : '---'))), ...rows.map((row) => line(row.map(inMarkdown)))].join('\n')}\n`;
}

/** A long table as Markdown: all of its rows, in their order. */
Table.prototype.markdown = function () {
    const { columns, order } = this;
    return markdown(columns.map(({ name }) => name), columns.map(({ number }) => number), order.map((row) => columns.map(({ cell }) => {
        const content = cell(row) ?? '';
        return content instanceof Node ? content.textContent : content;
    })));
};

async function copy(text) {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        // If the browser allows the clipboard only to secure pages: copy from a selected field.
        const field = make('textarea', { class: 'offscreen', 'aria-hidden': 'true' });
        field.value = text;
        document.body.append(field);
        field.select();
        const done = document.execCommand('copy');
        field.remove();
        return done;
    }
}

/** A button that copies a table, and then says whether it did. */
function copyButton(text) {
    const label = 'Copy as Markdown';
    const button = make('button', { class: 'copy', type: 'button', onclick: async () => {
        const done = await copy(text());
        button.textContent = done ? 'Copied' : 'Not copied: the browser refuses';
        setTimeout(() => { button.textContent = label; }, 2000);
    } }, label);
    return button;
}

/** A short table: its first column has names, all others have numbers. */
function plainTable(host, heads, rows) {
    const head = make('tr', {}, ...heads.map((text) => make('th', { scope: 'col' }, text)));
    const lines = rows.map((row) => make('tr', {}, ...row.map((cell) => make('td', {}, cell))));
    const text = () => markdown(heads, heads.map((_, column) => column > 0), lines.map((line) => [...line.cells].map((cell) => cell.textContent)));
    host.append(make('table', {}, make('thead', {}, head), make('tbody', {}, ...lines)), make('div', {}, copyButton(text)));
}

