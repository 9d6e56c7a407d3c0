// SPDX-License-Identifier: MIT OR Apache-2.0
// One function -----------------------------------------------------------------------------------------------------------------

/** The number of the marked source line; its instructions are marked, too. */
let marked = -1;
let codeTables = [];

/** Table of callers or callees: those of the whole run, or those of one task with their instructions in it. */
function arcTable(host, label, arcs, end, inclusive) {
    const insnsOf = (arc) => (scope.part ? inclusive.get(end[arc]) : data.arcs.inclusive[arc]);
    const rows = scope.part ? arcs.filter((arc) => inclusive.has(end[arc])) : arcs;
    const columns = [
        { name: label, width: 'minmax(8rem, 1fr)', class: 'mono', cell: (arc) => endName(end[arc]), key: (arc) => endName(end[arc]), title: (arc) => endName(end[arc]) },
        { name: scope.part ? 'Calls (run)' : 'Calls', width: '6rem', number: true, cell: (arc) => group(data.arcs.calls[arc]), key: (arc) => data.arcs.calls[arc], hint: scope.part ? 'Exact, in the whole run.' : 'Exact.' },
    ];
    if (rows.some((arc) => data.arcs.tail_calls[arc] > 0)) {
        columns.push({ name: 'by jump', width: '5rem', number: true, cell: (arc) => group(data.arcs.tail_calls[arc]), key: (arc) => data.arcs.tail_calls[arc], hint: 'Tail calls: the last thing that another function did was to jump there.' });
    }
    if (data.stacked && data.arcs.cycles && !scope.part) {
        columns.push({ name: data.exact ? 'Cycles' : 'Cycles ≈', width: '6rem', number: true, cell: (arc) => group(data.arcs.cycles[arc]), key: (arc) => data.arcs.cycles[arc], hint: 'As the inclusive instructions beside them.' });
    }
    if (data.stacked) {
        columns.push({ name: data.exact ? 'Inclusive' : 'Inclusive ≈', width: '7rem', number: true, cell: (arc) => group(insnsOf(arc)), key: insnsOf, hint: `The callee's, while called so. ${aboutInclusive}` });
    }
    const table = new Table(host, {
        label,
        columns,
        most: () => 9 * ROW_PX,
        opens: (arc) => open(end[arc]),
        look: (arc, element) => {
            if (end[arc] < 0) element.classList.add('zero');
        },
    });
    table.show(rows);
    table.sort(columns.length - 1, true);
    return rows.length;
}

/** Shows the chosen function beside the table or picture in which it was chosen. */
function showFunction() {
    const row = state.f;
    const was = document.body.classList.contains('beside');
    by('function').hidden = row === null;
    document.body.classList.toggle('beside', row !== null);
    if (was !== (row !== null)) functionTable.resize();
    functionTable.redraw();
    if (row === null) return;
    const at = functionTable.order.indexOf(row);
    if (at >= 0) functionTable.activate(at, true);
    marked = -1;
    by('function').scrollTop = 0;
    by('function-title').textContent = functionName(row);
    const numbers = [];
    const say = (value, text) => numbers.push(numbers.length ? ' · ' : '', make('b', {}, value), ` ${text}`);
    const self = scope.self[row];
    say(group(self), `self (${percent(self, scope.total)}${scope.part ? ` of ${scope.part.noun}` : ''})`);
    if (data.stacked) say(group(scope.inclusive[row]), `inclusive${data.exact ? '' : ', estimated from samples'}`);
    const samples = scope.samples[row];
    if (scope.part) say(group(functions.self[row]), 'self in the whole run');
    if (functions.cycles) say(group(functions.cycles[row]), `cycles${functions.cycles_between ? `, ${cyclesBetween(row)}` : ''}`);
    if (functions.is_function[row]) say(group(functions.calls[row]), functions.calls[row] === 1 ? 'call' : 'calls');
    if (functions.calls[row] > 0) say(group(Math.round(functions.self[row] / functions.calls[row])), 'self per call');
    const call = perCall(row);
    if (call) say(`${group(call.min)} / ${group(call.mean)} / ${group(call.max)}`, 'inclusive per call: shortest / mean / longest');
    say(group(samples), samples === 1 ? 'sample' : 'samples');
    if (functions.start[row]) numbers.push(` · ${functions.start[row]}`);
    if (place(row)) numbers.push(` · ${place(row)}`);
    by('function-numbers').replaceChildren(...numbers);
    const near = scope.part ? neighbours(row) : { callers: null, callees: null };
    const callers = arcTable(by('callers'), 'Caller', callersOf.get(row) ?? [], data.arcs.caller, near.callers);
    const callees = arcTable(by('callees'), 'Callee', calleesOf.get(row) ?? [], data.arcs.callee, near.callees);
    by('callers-title').textContent = `Callers (${group(callers)})`;
    by('callees-title').textContent = `Callees (${group(callees)})`;
    showListing(row);
}

by('function-tools').append(
    make('button', { type: 'button', onclick: () => {
        go({ q: functionName(state.f), z: null });
        by('flamegraph').scrollIntoView({ block: 'start' });
    } }, 'Mark in the call paths'),
    make('button', { type: 'button', onclick: () => {
        go({ v: 'both', z: null });
        by('flamegraph').scrollIntoView({ block: 'start' });
    } }, 'Sandwich'),
    make('button', { type: 'button', id: 'widen', 'aria-pressed': 'false', onclick: (event) => {
        const wide = document.body.classList.toggle('wide');
        event.target.setAttribute('aria-pressed', String(wide));
        functionTable.resize();
    } }, 'Wide'),
);

/** Shows a part of the hottest value as a background. */
const heated = (element, part, whole) => {
    element.style.setProperty('--heat', `${whole > 0 ? Math.round(90 * Math.sqrt(part / whole)) : 0}%`);
};

function showListing(row) {
    const listing = data.listings[row];
    codeTables = [];
    by('listing').hidden = !listing;
    const notes = [];
    if (row >= functions.executed) notes.push('It never executed.');
    if (!listing) {
        const name = data.strings[functions.name[row]];
        notes.push(row >= functions.executed ? '' : 'This page has no room for its code.', `harness annotate shows it: ${name}`);
    }
    by('listing-note').replaceChildren(notes.filter(Boolean).join(' '));
    by('listing-note').hidden = notes.length === 0;
    if (!listing) return;
    const { lines, runs, insns } = listing;
    const own = functions.self[row];
    const most = (list) => list.reduce((one, other) => Math.max(one, other), 0);
    const [mostOfLine, mostOfInsn] = [most(lines.insns), most(insns.count)];

    // Source: a heading for each file, then its lines.
    const source = [];
    lines.line.forEach((_, line) => {
        if (line === 0 || lines.file[line] !== lines.file[line - 1]) source.push({ file: lines.file[line] });
        else if (lines.line[line] !== lines.line[line - 1] + 1) source.push({ gap: true });
        source.push({ line });
    });
    const sourceCell = (cell) => (at) => (source[at].line === undefined ? '' : cell(source[at].line));
    const count = (line) => (lines.insns[line] < 0 ? '' : group(lines.insns[line]));
    const mark = (line, from) => {
        marked = line;
        for (const table of codeTables) {
            if (table !== from && line >= 0) table.activate(table.places.get(line) ?? -1, true);
            table.redraw();
        }
    };
    const sourceTable = new Table(by('source'), {
        label: 'Source lines',
        most: () => Math.max(200, innerHeight * 0.5),
        opens: (at) => mark(source[at].line ?? -1, sourceTable),
        moved: (at) => mark(source[at].line ?? -1, sourceTable),
        look(at, element) {
            const { line, file, gap } = source[at];
            if (file !== undefined) {
                element.classList.add('file');
                element.style.gridTemplateColumns = '1fr';
                element.replaceChildren(make('div', { role: 'gridcell', class: 'mono', title: string(file) }, string(file)));
            } else if (gap) {
                element.lastChild.append('⋮');
                element.classList.add('nocode');
            } else {
                if (lines.insns[line] < 0) element.classList.add('nocode');
                if (lines.insns[line] === 0) element.classList.add('zero');
                if (line === marked) element.classList.add('same');
                heated(element, Math.max(0, lines.insns[line]), mostOfLine);
            }
        },
        columns: [
            { name: 'Instructions', width: '6.4rem', number: true, class: 'count', cell: sourceCell(count) },
            { name: '%', width: '3.9rem', number: true, cell: sourceCell((line) => (lines.insns[line] > 0 ? percent(lines.insns[line], own) : '')) },
            { name: 'Samples', width: '4.6rem', number: true, cell: sourceCell((line) => (lines.samples[line] ? group(lines.samples[line]) : '')) },
            { name: 'Line', width: '2.8rem', number: true, class: 'dim', cell: sourceCell((line) => String(lines.line[line])) },
            { name: 'Source', width: 'minmax(14rem, 1fr)', class: 'mono', cell: sourceCell((line) => visibleSource(lines.text[line])), title: sourceCell((line) => visibleSource(lines.text[line])) },
        ],
    });
    sourceTable.places = new Map(source.map(({ line }, at) => [line, at]));
    sourceTable.show(source.map((_, at) => at));

    // Instructions: a heading for each run of one line, then its instructions.
    const code = [];
    const codePlaces = new Map();
    let next = 0;
    let lastHeading = null;
    runs.len.forEach((len, run) => {
        const line = runs.line[run];
        const inlined = runs.inlined[run].map(string);
        const where = line < 0 ? '' : `${fileName(string(lines.file[line]))}:${lines.line[line]}`;
        const text = line < 0 ? '' : (lines.text[line] ?? '').trim();
        const from = inlined.length ? `  [inlined: ${inlined.join(' > ')}]` : '';
        const heading = `${where}  ${visibleSource(text)}${from}`.trim();
        if (heading && heading !== lastHeading) {
            if (!codePlaces.has(line)) codePlaces.set(line, code.length);
            code.push({ heading, line });
        }
        lastHeading = heading;
        for (let index = 0; index < len; index++) code.push({ insn: next++, line });
    });
    const insnText = (insn) => {
        const ways = insns.ways[insn];
        return `${insns.text[insn] ? visible(insns.text[insn]) : '(not in the image)'}${ways ? `  [${ways}]` : ''}`;
    };
    const codeCell = (cell) => (at) => (code[at].insn === undefined ? '' : cell(code[at].insn));
    const codeTable = new Table(by('code'), {
        label: 'Instructions',
        most: () => Math.max(200, innerHeight * 0.5),
        opens: (at) => mark(code[at].line, codeTable),
        moved: (at) => mark(code[at].line, codeTable),
        look(at, element) {
            const { insn, line, heading } = code[at];
            if (heading !== undefined) {
                element.classList.add('heading');
                element.style.gridTemplateColumns = '1fr';
                element.replaceChildren(make('div', { role: 'gridcell', class: 'mono', title: heading }, heading));
            } else {
                if (insns.count[insn] === 0) element.classList.add('zero');
                heated(element, insns.count[insn], mostOfInsn);
            }
            if (line === marked && marked >= 0) element.classList.add('same');
        },
        columns: [
            { name: 'Executed', width: '6.2rem', number: true, class: 'count', cell: codeCell((insn) => group(insns.count[insn])) },
            { name: 'Samples', width: '4.6rem', number: true, cell: codeCell((insn) => (insns.samples[insn] ? group(insns.samples[insn]) : '')) },
            { name: 'Address', width: insns.start.length > 10 ? '10rem' : '6.6rem', class: 'mono dim', cell: codeCell((insn) => hex(insns.start, insns.offset[insn])) },
            { name: 'Instruction', width: 'minmax(12rem, 1fr)', class: 'mono', cell: codeCell(insnText), title: codeCell(insnText) },
        ],
    });
    codeTable.places = codePlaces;
    codeTable.show(code.map((_, at) => at));
    codeTables = [sourceTable, codeTable];
    by('source').parentElement.hidden = source.length === 0;
    const run = scope.part ? ' (whole run)' : '';
    by('source-title').textContent = `Source: instructions by line${run}`;
    by('code-title').textContent = `Machine code: ${plural(insns.count.length, 'instruction')}${run}`;
    if (data.source_notes.length && lines.line.length && lines.text.every((text) => text === null)) {
        by('listing-note').hidden = false;
        by('listing-note').replaceChildren(`The source was not found when this page was made: harness report --source-map FROM=TO says where it is.`);
    }
}

/** Source line without invisible characters; each tab becomes four spaces. */
function visibleSource(text) {
    return text === null || text === undefined ? '' : text.split('\t').map(visible).join('    ');
}

by('close').addEventListener('click', () => leaveFunction());

function leaveFunction() {
    const inside = by('function').contains(document.activeElement);
    go({ f: null, ...(state.v === 'both' ? { v: '' } : {}) });
    if (inside) functionTable.table.focus({ preventScroll: true });
}

