// SPDX-License-Identifier: MIT OR Apache-2.0

// Zones, phases, slices ------------------------------------------------------------------------------------------------------

{
    const { zones, cycles, remarks, phases, slices } = data.zones;
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
        if (zones.length && cycles) plainTable(host, ['Zone (cycles)', 'In', 'Calls', 'Cycles', 'Share', 'Own', 'Shortest', 'Mean', 'Longest'], zones.map(
            ([name, context, [calls]], row) => [visible(name), visible(context), group(calls), group(cycles[row][0]), percent(cycles[row][0], data.total_cycles), ...cycles[row].slice(1).map(group)]));
        for (const remark of remarks) host.append(make('p', {}, visible(remark)));
    }
    if (phases.length) {
        const withCycles = data.total_cycles !== null;
        plainTable(section('phases', 'Phases'), ['Phase', 'Instructions', 'Share', ...(withCycles ? ['Cycles'] : []), 'Idle', 'In interrupts'], phases.map(
            ([name, insns, idle, interrupts, cycles]) => [visible(name), group(insns), percent(insns, data.total_insns), ...(withCycles ? [group(cycles)] : []), percent(idle, insns), percent(interrupts, insns)]));
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
            chosen.replaceChildren(make('p', {}, `${sliceNames(...range)}: ${plural(insns, 'instruction')}${slices.cycles ? `, ${plural(sum(slices.cycles, ...range), 'cycle')}` : ''}, idle ${percent(sum(slices.idle, ...range), insns)}, in interrupts ${percent(sum(slices.interrupts, ...range), insns)}`));
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
            const [rowPx, axisPx] = [14, 18];
            const canvas = make('canvas', { role: 'img', style: `width:100%;height:${rows.length * rowPx + axisPx}px;display:block;cursor:crosshair`, 'aria-label': `${title} by slice; the table below names what executed most` });
            host.append(make('h3', {}, title), canvas);
            /** Width of the names beside the map, in the canvas' own pixels. */
            const namesPx = (width) => Math.round(Math.min(width * 0.25, 220));
            function draw() {
                const ratio = window.devicePixelRatio || 1;
                const [width, height] = [Math.max(1, canvas.clientWidth), rows.length * rowPx];
                [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round((height + axisPx) * ratio)];
                const pen = canvas.getContext('2d');
                pen.scale(ratio, ratio);
                const left = namesPx(width);
                const x = (column) => left + (column / columns) * (width - left);
                cells.forEach((row, y) => row.forEach((count, column) => {
                    if (!count) return;
                    const part = Math.sqrt(count / Math.max(1, slices.insns[column]));
                    pen.fillStyle = isDark()
                        ? `hsl(${48 - 34 * part} ${50 + 30 * part}% ${22 + 42 * part}%)`
                        : `hsl(${48 - 34 * part} ${65 + 25 * part}% ${88 - 42 * part}%)`;
                    pen.fillRect(x(column), y * rowPx, Math.max(1, x(column + 1) - x(column)), rowPx - 1);
                }));
                const style = getComputedStyle(document.documentElement);
                pen.fillStyle = style.getPropertyValue('--ink');
                pen.font = `11px ${style.getPropertyValue('--mono')}`;
                const letters = Math.floor((left - 8) / pen.measureText('m').width);
                const shortened = (name) => (name.length > letters ? `${name.slice(0, letters - 1)}…` : name);
                rows.forEach((name, y) => pen.fillText(shortened(visible(name)), 0, y * rowPx + 11));
                // Instructions of the run, at round columns.
                pen.fillStyle = style.getPropertyValue('--quiet');
                const ticks = Math.max(1, Math.min(columns, Math.floor((width - left) / 160)));
                for (let tick = 0; tick <= ticks; tick++) {
                    const column = Math.round((columns * tick) / ticks);
                    pen.textAlign = tick === 0 ? 'left' : tick === ticks ? 'right' : 'center';
                    const at = Math.min(data.total_insns, column * slices.per_column * slices.slice_insns);
                    pen.fillText(group(at), x(column), height + 13);
                    pen.fillRect(Math.min(width - 1, x(column)), height, 1, 3);
                }
                if (range[0] > 0 || range[1] < columns - 1) {
                    pen.strokeStyle = style.getPropertyValue('--ink');
                    pen.strokeRect(x(range[0]) + 0.5, 0.5, x(range[1] + 1) - x(range[0]) - 1, height - 1);
                }
            }
            const at = (event) => {
                const box = canvas.getBoundingClientRect();
                const left = namesPx(box.width);
                const within = (value, most) => Math.max(0, Math.min(most - 1, Math.floor(value)));
                return [within(((event.clientX - box.left - left) / (box.width - left)) * columns, columns), within((event.clientY - box.top) / rowPx, rows.length)];
            };
            let began = null;
            canvas.addEventListener('mousedown', (event) => { [began] = at(event); });
            canvas.addEventListener('mousemove', (event) => {
                const [column, y] = at(event);
                if (began !== null) return choose(began, column);
                return showTip(event, visible(rows[y]), [sliceNames(column, column), `${plural(cells[y][column], 'instruction')}, ${percent(cells[y][column], slices.insns[column])}`]);
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
