// SPDX-License-Identifier: MIT OR Apache-2.0
// Comparison with another run -------------------------------------------------------------------------------------------------------

/** Whether a path has as many instructions as before, within the error of the samples. */
function isSame(path, now) {
    const { before, error } = data.compare.paths;
    return before[path] === null || (error[path] > 0 ? Math.abs(now - before[path]) <= error[path] : now === before[path]);
}

/** The colour of a path by its instructions before and now. */
const changeColor = (path, now, dark) => (isSame(path, now) ? colorBetween(now, now, dark) : colorBetween(data.compare.paths.before[path], now, dark));

/** The colour of a change between two numbers of instructions; the legend has it for numbers of no path. */
function colorBetween(before, now, dark) {
    const lightness = dark ? 27 : 78;
    if (before === now) return dark ? '#3a3d40' : '#e8e8e8';
    if (before === 0) return dark ? 'hsl(28 80% 27%)' : 'hsl(32 95% 66%)';
    const part = Math.sqrt(Math.abs(now - before) / Math.max(now, before));
    return `hsl(${now > before ? 4 : 212} ${25 + 50 * part}% ${lightness + (dark ? 5 : -8) * part}%)`;
}

const signed = (difference) => (difference > 0 ? '+' : difference < 0 ? '-' : '±') + group(Math.abs(difference));
/** A path's instructions before, in words for the line above the picture. */
function changeOf(path, now) {
    const { before, error, is_sampled } = data.compare.paths;
    const was = before[path];
    if (was === null) return null;
    if (was === now) return 'the same before';
    const about = is_sampled[path] ? '≈' : '';
    const off = error[path] > 0 ? ` ±${group(error[path])}` : '';
    if (isSame(path, now)) return `${about}${group(was)} before: the same within ±${group(error[path])}, the error of the samples`;
    return was === 0 ? 'new' : `${about}${group(was)} before (${about}${signed(now - was)}${off})`;
}

const signedPercent = (difference, whole) => (whole > 0 ? `${difference > 0 ? '+' : ''}${((100 * difference) / whole).toFixed(2)}%` : '');

if (data.compare) {
    const { label, explained, notes, total, changes, fates } = data.compare;
    const change = total[1] - total[0];
    const rowOfName = new Map();
    names.forEach((name, row) => { if (!rowOfName.has(name)) rowOfName.set(name, row); });
    by('compare').hidden = false;
    by('compare-title').textContent = `Compared with ${visible(label)}`;
    by('compare-text').append(...notes.map((note) => make('p', { class: 'quiet' }, `note: ${visible(note)}`)));
    // Whoever compares asks first what changed, so that comes before what the run consists of.
    by('summary').classList.add('compared');
    const at = explained.indexOf('by own lines: ');
    by('summary').prepend(make('p', { class: 'change' },
        make('b', {}, at < 0 ? 'No change' : signedPercent(change, total[0]) || signed(change)), ` against ${visible(label)}: `,
        change === 0 ? `${group(total[1])} instructions.` : `${group(total[0])} → ${group(total[1])} instructions (${signed(change)}).`,
        at < 0 ? '' : ` ${visible(explained.slice(at)).replace('by', 'By')}.`));
    const known = (number) => (number === null ? '–' : group(number));
    const difference = (change) => (changes.after[change] ?? 0) - (changes.before[change] ?? 0);
    const rows = changes.name.map((_, change) => change);
    // A number that is cut off is another number.
    const width = (least, cell) => `${rows.reduce((most, row) => Math.max(most, 0.58 * cell(row).length + 0.9), least).toFixed(1)}rem`;
    const ofNumbers = (column, least) => ({ ...column, number: true, width: width(least, column.cell) });
    const nameOf = (change) => visible(changes.name[change]);
    const rowOf = (change) => rowOfName.get(nameOf(change)) ?? -1;
    const table = new Table(by('compare-table'), {
        label: 'Changes',
        most: () => Math.max(160, innerHeight * 0.4),
        opens: (change) => open(rowOf(change)),
        look(change, element) {
            element.children[3].classList.add(difference(change) > 0 ? 'bad' : difference(change) < 0 ? 'good' : 'dim');
            if (rowOf(change) < 0) element.classList.add('zero');
        },
        columns: [
            { name: 'Function', width: 'minmax(9rem, 3fr)', class: 'mono', cell: nameOf, key: nameOf, title: nameOf },
            ofNumbers({ name: 'Own before', cell: (change) => known(changes.before[change]), key: (change) => changes.before[change] ?? -1, hint: 'Instructions of its own lines, wherever they are inlined, as harness diff has them. Exact.' }, 6.4),
            ofNumbers({ name: 'Own after', cell: (change) => known(changes.after[change]), key: (change) => changes.after[change] ?? -1 }, 6.4),
            ofNumbers({ name: 'Change', cell: (change) => signed(difference(change)), key: difference }, 6.4),
            ofNumbers({ name: '% of itself', cell: (change) => (changes.after[change] === null ? '' : signedPercent(difference(change), changes.before[change] ?? 0)), key: (change) => difference(change) / Math.max(1, changes.before[change] ?? 1) }, 6),
            ofNumbers({ name: '% of the total', cell: (change) => signedPercent(difference(change), total[0]), key: (change) => Math.abs(difference(change)) }, 8.2),
            ofNumbers({ name: 'Code before', cell: (change) => known(changes.code_before[change]), key: (change) => changes.code_before[change] ?? -1, hint: 'Instructions of its code, with what is inlined into it: Self in the table of functions. Exact.' }, 6.6),
            ofNumbers({ name: 'Code after', cell: (change) => known(changes.code_after[change]), key: (change) => changes.code_after[change] ?? -1, hint: 'As before it.' }, 6.4),
            ofNumbers({ name: 'Calls before', cell: (change) => known(changes.calls_before[change]), key: (change) => changes.calls_before[change] ?? -1 }, 6.4),
            ofNumbers({ name: 'Calls after', cell: (change) => known(changes.calls_after[change]), key: (change) => changes.calls_after[change] ?? -1 }, 6.2),
            { name: '', width: 'minmax(5.5rem, 1fr)', class: 'dim', cell: (change) => fates[changes.fate[change]] },
        ],
    });
    table.show(rows);
    table.sort(5, true);
    by('compare-bar').append(copyButton(() => table.markdown()));
    if (data.compare.tasks.length) {
        const host = make('div', { class: 'plain' });
        by('compare').append(host);
        plainTable(host, ['Task', 'Before', 'After', 'Change'], data.compare.tasks.map(([name, before, after]) => [
            visible(name), known(before), known(after), signed((after ?? 0) - (before ?? 0))]));
    }
    if (data.compare.paths) {
        byChange = true;
        const toggle = make('input', { type: 'checkbox', checked: '', onchange: () => {
            byChange = toggle.checked;
            showLegend();
            flames.themed();
        } });
        by('views').after(make('label', { class: 'quiet' }, toggle, ' what changed'));
    } else {
        by('compare-text').append(make('p', { class: 'quiet' }, 'Call paths are not compared: they are followed on one side (--exact) and sampled on the other, or there are none.'));
    }
}

