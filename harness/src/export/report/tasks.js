// SPDX-License-Identifier: MIT OR Apache-2.0
// Tasks and interrupts ----------------------------------------------------------------------------------------------------------

/** A button that shows only one task; pressed again, it shows the whole run. */
const taskLink = (number) => make('button', {
    class: 'name',
    type: 'button',
    title: 'Show only what belongs to this task',
    'aria-pressed': String(state.t === number),
    onclick: () => go({ t: state.t === number ? null : number, s: null, z: null }),
}, visible(data.tasks[number].name));

/** A button that marks a frame in the call paths. */
const markLink = (name, text) => make('button', { class: 'name', type: 'button', title: 'Mark it in the call paths', onclick: () => {
    go({ q: text, z: null });
    by('flamegraph').scrollIntoView({ block: 'nearest' });
} }, name);

const hasSpans = data.interrupts.some((interrupt) => interrupt.spans);

by('tasks').hidden = data.tasks.length === 0;
by('interrupts').hidden = data.interrupts.length === 0;

function showTasks() {
    if (data.tasks.length) {
        const host = by('tasks').querySelector('.plain');
        host.replaceChildren();
        // The share of the time is that of the instructions, unless the processor slept.
        const withTime = data.tasks.some((task) => task.time !== null);
        plainTable(host, ['Task', 'Instructions', 'Share', ...(withTime ? ['Time'] : []), 'Switched in', 'Stack left', 'Paint left'], data.tasks.map((task, number) => [
            taskLink(number), group(task.insns), percent(task.insns, data.total_insns), ...(withTime ? [task.time ?? ''] : []),
            group(task.switches), task.stack, task.painted,
        ]));
        for (const remark of data.remarks) host.append(make('p', {}, visible(remark)));
        // States are known only for the whole run.
        if (data.task_states !== null && !scope.part) {
            for (const { heads, rows } of data.task_states.tables) plainTable(host, heads, rows.map((row) => row.map(visible)));
            for (const sentence of data.task_states.sentences) host.append(make('p', {}, visible(sentence)));
        }
    }
    if (data.interrupts.length) {
        const host = by('interrupts').querySelector('.plain');
        host.replaceChildren();
        const rows = data.interrupts.filter((interrupt) => scope.interrupts.has(visible(interrupt.name)));
        // Durations are known only for the whole run.
        const withSpans = hasSpans && !scope.part;
        // So are cycles.
        const withCycles = data.total_cycles !== null && !scope.part;
        plainTable(host, ['Interrupt', data.exact ? 'Instructions' : 'Instructions ≈', 'Share', 'Samples',
            ...(withCycles ? ['Cycles'] : []), ...(withSpans ? ['Times', 'Shortest', 'Mean', 'Longest'] : [])], rows.map((interrupt) => {
            const [insns, samples] = scope.interrupts.get(visible(interrupt.name));
            return [
                markLink(visible(interrupt.name), visible(interrupt.name)), group(insns),
                percent(insns, scope.total), group(samples),
                ...(withCycles ? [interrupt.cycles === null ? '–' : group(interrupt.cycles)] : []),
                ...(withSpans ? (interrupt.spans ?? ['', '', '', '']).map((number) => (number === '' ? '–' : group(number))) : []),
            ];
        }));
        if (!data.tasks.length) for (const remark of data.remarks) host.append(make('p', {}, visible(remark)));
    }
}

if (!data.tasks.length && !data.interrupts.length && data.remarks.length) {
    by('tasks-title').textContent = 'Stacks';
    by('tasks').hidden = false;
    for (const remark of data.remarks) by('tasks').querySelector('.plain').append(make('p', {}, visible(remark)));
}

/** Scopes by task and slices; each is made once. */
const scopes = new Map([[',', wholeRun]]);

/** Shows the whole run, one task or some slices, in all pictures, tables and sentences that can be restricted to these. */
function rescope() {
    const key = `${state.t ?? ''},${state.s ?? ''}`;
    if (!scopes.has(key)) scopes.set(key, state.s ? sliceScope(state.s) : taskScope(state.t));
    scope = scopes.get(key);
    const { part } = scope;
    document.body.classList.toggle('filtered', part !== null);
    by('filter').hidden = part === null;
    if (part) {
        by('filter').replaceChildren('Only ', make('b', {}, part.title),
            `: ${plural(Math.round(scope.total), 'instruction')}${part.isSampled ? ' by samples' : ''}, ${percent(scope.total, data.total_insns)} of the run; shares are of ${part.noun} `,
            make('button', { type: 'button', onclick: () => go({ t: null, s: null, z: null }) }, 'Show everything'));
    }
    showHeadline();
    showTasks();
}
