// SPDX-License-Identifier: MIT OR Apache-2.0
// The firmware's output ------------------------------------------------------------------------------------------------------------

if (data.console) {
    const { lines, at, left_out: leftOut, marked: isMarked } = data.console;
    by('console').hidden = false;
    const rows = lines.map((_, line) => line);
    const numbers = { name: 'By instruction', width: '8rem', number: true, class: 'dim', cell: (line) => (at[line] === null ? '' : group(at[line])), key: (line) => at[line] ?? Infinity, hint: 'It had been printed to its end by this instruction of the run: the first sample after it.' };
    const table = new Table(by('console-table'), {
        label: 'Console',
        most: () => Math.max(160, innerHeight * 0.4),
        columns: [
            { name: 'Line', width: '4rem', number: true, class: 'dim', cell: (line) => group(line + 1 + leftOut) },
            ...(isMarked ? [numbers] : []),
            { name: 'Output', width: 'minmax(30rem, 1fr)', class: 'mono', cell: (line) => visible(lines[line]), title: (line) => visible(lines[line]) },
        ],
    });
    table.show(rows);
    const parts = [plural(lines.length + leftOut, 'line')];
    if (leftOut) parts.push(`the first ${group(leftOut)} are left out`);
    by('console-note').textContent = parts.join(', ');
    by('console-bar').append(copyButton(() => table.markdown()));
}

