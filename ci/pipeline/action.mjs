// SPDX-License-Identifier: MIT OR Apache-2.0
// A runner of action.yml: its steps in order, each shell as GitHub starts it, expressions as GitHub's own library reads
// them. Steps that use another action are not run; what they would get is returned.
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { data, Evaluator, Lexer, Parser } from '@actions/expressions';
import { truthy } from '@actions/expressions/result';
import { parse } from 'yaml';

// A value as expressions know it.
function known(value) {
    if (value === undefined || value === null) return new data.Null();
    if (typeof value === 'object') {
        return new data.Dictionary(...Object.entries(value).map(([key, inner]) => ({ key, value: known(inner) })));
    }
    if (typeof value === 'number') return new data.NumberData(value);
    if (typeof value === 'boolean') return new data.BooleanData(value);
    return new data.StringData(String(value));
}

function evaluate(text, contexts, status) {
    const functions = Object.entries(status).map(([name, value]) => ({
        name,
        minArgs: 0,
        maxArgs: 0,
        call: () => new data.BooleanData(value),
    }));
    const { tokens } = new Lexer(text).lex();
    const tree = new Parser(tokens, Object.keys(contexts), functions).parse();
    return new Evaluator(tree, known(contexts), new Map(functions.map((it) => [it.name, it]))).evaluate();
}

// A text with `${{ … }}` in it.
function filled(text, contexts, status) {
    return String(text).replace(/\$\{\{(.*?)\}\}/gs, (_, inner) => evaluate(inner, contexts, status).coerceString());
}

function filledIn(values, contexts, status) {
    return Object.fromEntries(Object.entries(values ?? {}).map(([name, it]) => [name, filled(it, contexts, status)]));
}

// Runs a program; its status and all that it wrote.
export function execute(command, args, options) {
    return new Promise((resolve, reject) => {
        const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
        let said = '';
        for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes) => (said += bytes));
        child.on('error', reject);
        child.on('close', (code) => resolve({ code, said }));
    });
}

// The outputs of a step, one `name=value` a line.
function outputs(text) {
    const lines = text.split('\n').filter(Boolean);
    return Object.fromEntries(lines.map((line) => /^([^=]*)=(.*)$/.exec(line).slice(1)));
}

// Runs the action that lies in `action` for a job in `workspace`.
export async function run({ action, workspace, temp, inputs = {}, event = {}, environment = {} }) {
    const description = parse(await readFile(join(action, 'action.yml'), 'utf8'));
    const repository = 'OWNER/REPOSITORY';
    const github = { action_path: action, token: 'token-of-the-job', event, repository, workspace };
    for (const name of Object.keys(inputs)) {
        if (!(name in description.inputs)) throw new Error(`action.yml has no input ${name}`);
    }
    const given = {};
    for (const [name, input] of Object.entries(description.inputs)) {
        given[name] = inputs[name] ?? filled(input.default ?? '', { github }, {});
    }
    const files = await mkdtemp(join(tmpdir(), 'action-'));
    const file = async (name) => {
        const path = join(files, name);
        await writeFile(path, '', { flag: 'a' });
        return path;
    };
    const contexts = { inputs: given, github, steps: {} };
    const job = { code: 0, said: '', uses: [], ran: [], summary: '' };
    for (const [index, step] of description.runs.steps.entries()) {
        const failed = job.code !== 0;
        const status = { always: true, cancelled: false, success: !failed, failure: failed };
        const condition = step.if === undefined ? 'success()' : String(step.if).replace(/^\$\{\{(.*)\}\}$/s, '$1');
        // GitHub adds success() where a condition names no function of that kind.
        const asked = /\b(always|cancelled|success|failure)\(\)/.test(condition) || !failed;
        const result = evaluate(condition, contexts, status);
        if (!asked || !truthy(result)) continue;
        const fill = (values) => filledIn(values, contexts, status);
        if (step.uses) {
            job.uses.push({ uses: step.uses, with: fill(step.with) });
            continue;
        }
        if (step.shell !== 'bash') throw new Error(`${step.name}: every step of a composite action names its shell`);
        const script = join(files, `${index}.sh`);
        await writeFile(script, filled(step.run, contexts, status));
        const output = await file(`output-${index}`);
        const { code, said } = await execute('bash', ['--noprofile', '--norc', '-eo', 'pipefail', script], {
            cwd: join(workspace, filled(step['working-directory'] ?? '.', contexts, status)),
            env: {
                PATH: process.env.PATH,
                HOME: files,
                GITHUB_ACTIONS: 'true',
                GITHUB_WORKSPACE: workspace,
                GITHUB_REPOSITORY: repository,
                GITHUB_OUTPUT: output,
                GITHUB_PATH: await file('path'),
                GITHUB_STEP_SUMMARY: await file('summary'),
                RUNNER_TEMP: temp,
                ...environment,
                ...fill(step.env),
            },
        });
        job.ran.push(step.name);
        job.said += said;
        if (step.id) contexts.steps[step.id] = { outputs: outputs(await readFile(output, 'utf8')) };
        if (code !== 0 && job.code === 0) job.code = code;
    }
    const values = Object.entries(description.outputs).map(([name, { value }]) => [name, value]);
    job.outputs = filledIn(Object.fromEntries(values), contexts, {});
    job.summary = await readFile(await file('summary'), 'utf8');
    job.path = (await readFile(await file('path'), 'utf8')).trim();
    return job;
}
