
// Zones, phases, slices ------------------------------------------------------------------------------------------------------

{
    const { zones, remarks, phases, slices } = data.zones;
    /** Adds a section before the addresses, and the link to it. */
    const section = (id, title) => {
        const host = make('div', { class: 'plain' });
        by('addresses').before(make('section', { id, class: 'whole', 'aria-labelledby': `${id}-title` }, make('h2', { id: `${id}-title` }, title), host));
        const to = (event) => {
            event.preventDefault();
            by(id).scrollIntoView({ block: 'start' });
        };
        const before = [...nav.children].find((link) => ['#addresses', '#check'].includes(link.getAttribute('href')));
        nav.insertBefore(make('a', { href: `#${id}`, onclick: to }, title), before ?? null);
        return host;
    };
    if (zones.length || remarks.length) {
        const host = section('zones', 'Zones');
        if (zones.length) plainTable(host, ['Zone', 'In', 'Calls', 'Instructions', 'Share', 'Own', 'Shortest', 'Mean', 'Longest'], zones.map(
            ([name, context, [calls, total, ...rest]]) => [visible(name), visible(context), group(calls), group(total), percent(total, data.total_insns), ...rest.map(group)]));
        for (const remark of remarks) host.append(make('p', {}, visible(remark)));
    }
    if (phases.length) {
        plainTable(section('phases', 'Phases'), ['Phase', 'Instructions', 'Share', 'Idle', 'In interrupts'], phases.map(
            ([name, insns, idle, interrupts]) => [visible(name), group(insns), percent(insns, data.total_insns), percent(idle, insns), percent(interrupts, insns)]));
    }
    if (slices) {
        const host = section('slices', 'Slices');
        const columns = slices.insns.length;
        const each = slices.per_column > 1 ? `; ${slices.per_column} of them are one column` : '';
        host.append(make('p', { class: 'quiet' }, `${plural(slices.count, 'slice')} of ${group(slices.slice_insns)} instructions${each}; drag over some to see what executed in them`));
        const first = (column) => column * slices.per_column;
        const last = (column) => Math.min(slices.count, (column + 1) * slices.per_column) - 1;
        const sliceNames = (from, until) => (first(from) === last(until) ? `slice ${first(from)}` : `slices ${first(from)} to ${last(until)}`);
        const chosen = make('div', { class: 'plain', id: 'slices-chosen', 'aria-live': 'polite' });
        const sum = (cells, from, until) => cells.slice(from, until + 1).reduce((one, other) => one + other, 0);
        let range = [0, columns - 1];

        function choose(from, until) {
            range = [Math.min(from, until), Math.max(from, until)];
            const insns = sum(slices.insns, ...range);
            const rows = slices.functions.rows.map((name, row) => [name, sum(slices.functions.cells[row], ...range)])
                .filter(([, count]) => count > 0).sort((one, other) => other[1] - one[1]).slice(0, 12);
            chosen.replaceChildren(make('p', {}, `${sliceNames(...range)}: ${plural(insns, 'instruction')}, idle ${percent(sum(slices.idle, ...range), insns)}, in interrupts ${percent(sum(slices.interrupts, ...range), insns)}`));
            plainTable(chosen, ['Function', 'Instructions', 'Share'], rows.map(([name, count]) => [visible(name), group(count), percent(count, insns)]));
            if (slices.taken && (range[0] > 0 || range[1] < columns - 1)) {
                chosen.append(make('button', { type: 'button', onclick: () => {
                    go({ s: [...range], t: null, z: null });
                    by('flamegraph').scrollIntoView({ block: 'start' });
                } }, 'Show only these, in all of the page'));
            }
            chosen.append(make('p', { class: 'mono quiet' }, `harness export PROFILE --format folded --slice ${first(range[0])}..${last(range[1])}`));
            maps.forEach((map) => map.draw());
        }
        function heatMap(title, { rows, cells }) {
            const rowPx = rows.length > 40 ? 8 : 14;
            const canvas = make('canvas', { role: 'img', style: `width:100%;height:${rows.length * rowPx}px;display:block;cursor:crosshair`, 'aria-label': `${title} by slice; the table below names what executed most` });
            host.append(make('h3', {}, title), canvas);
            function draw() {
                const ratio = window.devicePixelRatio || 1;
                const [width, height] = [Math.max(1, Math.round(canvas.clientWidth * ratio)), Math.round(rows.length * rowPx * ratio)];
                [canvas.width, canvas.height] = [width, height];
                const pen = canvas.getContext('2d');
                cells.forEach((row, y) => row.forEach((count, x) => {
                    if (!count) return;
                    const part = Math.sqrt(count / Math.max(1, slices.insns[x]));
                    pen.fillStyle = isDark()
                        ? `hsl(${48 - 34 * part} ${50 + 30 * part}% ${22 + 42 * part}%)`
                        : `hsl(${48 - 34 * part} ${65 + 25 * part}% ${88 - 42 * part}%)`;
                    const from = Math.floor((x / columns) * width);
                    pen.fillRect(from, Math.round(y * rowPx * ratio), Math.max(1, Math.floor(((x + 1) / columns) * width) - from), Math.max(1, Math.round(rowPx * ratio) - 1));
                }));
                if (rowPx > 10) {
                    pen.fillStyle = isDark() ? '#fff' : '#000';
                    pen.font = `${Math.round(10 * ratio)}px monospace`;
                    rows.forEach((name, y) => pen.fillText(visible(name), 4 * ratio, Math.round((y * rowPx + 10) * ratio)));
                }
                if (range[0] > 0 || range[1] < columns - 1) {
                    pen.strokeStyle = isDark() ? '#fff' : '#000';
                    pen.strokeRect((range[0] / columns) * width + 0.5, 0.5, ((range[1] + 1 - range[0]) / columns) * width - 1, height - 1);
                }
            }
            const at = (event) => {
                const box = canvas.getBoundingClientRect();
                const within = (value, most) => Math.max(0, Math.min(most - 1, Math.floor(value)));
                return [within(((event.clientX - box.left) / box.width) * columns, columns), within((event.clientY - box.top) / rowPx, rows.length)];
            };
            let began = null;
            canvas.addEventListener('mousedown', (event) => { [began] = at(event); });
            canvas.addEventListener('mousemove', (event) => {
                const [x, y] = at(event);
                if (began !== null) return choose(began, x);
                return showTip(event, visible(rows[y]), [sliceNames(x, x), `${plural(cells[y][x], 'instruction')}, ${percent(cells[y][x], slices.insns[x])}`]);
            });
            canvas.addEventListener('mouseleave', hideTip);
            window.addEventListener('mouseup', (event) => {
                if (began === null) return;
                choose(began, at(event)[0]);
                began = null;
            });
            return { draw, canvas };
        }
        const maps = [heatMap('Functions', slices.functions), heatMap('Addresses', slices.addresses)];
        host.append(chosen);
        choose(...(state.s ?? [0, columns - 1]));
        new ResizeObserver(() => maps.forEach((map) => map.draw())).observe(host);
        new MutationObserver(() => maps.forEach((map) => map.draw())).observe(document.documentElement, { attributes: true });
    }
}
