// SPDX-License-Identifier: MIT OR Apache-2.0
// Drives the extension's functions with a stand-in for the editor and with the real harness on a real image.
//
// HARNESS=PROGRAM IMAGE=ELF node --test test/        (ci/vscode sets both)
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import Module, { createRequire } from 'node:module';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';

const { HARNESS, IMAGE } = process.env;
assert(HARNESS && IMAGE, 'set HARNESS to the program and IMAGE to an ELF file: ci/vscode does both');
const require = createRequire(import.meta.url);
const model = require('../out/model.js');
const folder = mkdtempSync(path.join(os.tmpdir(), 'harness-vscode-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const profile = path.join(folder, 'fw.profile');
cpSync(IMAGE, path.join(folder, 'fw.elf'));
const harness = (...args) => execFileSync(HARNESS, args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: model.MAX_OUTPUT_BYTES });
harness('fw.elf', '-q', '--for', '3M', '-o', profile);

/** A stand-in for the editor: what the extension registers and shows. */
function editor({ isTrusted = true, settings = {} } = {}) {
    const seen = { commands: {}, lenses: null, watchers: [], messages: [], debugged: [], decorations: new Map(), status: {} };
    const event = () => ({ dispose() {} });
    class EventEmitter { listeners = []; event = (listener) => { this.listeners.push(listener); return { dispose() {} }; }; fire() { this.listeners.forEach((listener) => listener()); } dispose() {} }
    const document = { uri: { scheme: 'file', fsPath: path.join(folder, 'targets/apps/work/crc.c') }, lineCount: 60 };
    const watch = (list) => (listener) => { list.push(listener); return { dispose() {} }; };
    const vscode = {
        EventEmitter,
        Range: class { constructor(...at) { this.at = at; } },
        CodeLens: class { constructor(range, command) { Object.assign(this, { range, command }); } },
        ThemeColor: class {},
        StatusBarAlignment: { Left: 1 },
        OverviewRulerLane: { Right: 4 },
        ConfigurationTarget: { Workspace: 2 },
        window: {
            createTextEditorDecorationType: (options) => ({ options, dispose() {} }),
            createStatusBarItem: () => Object.assign(seen.status, { show() {}, dispose() {} }),
            onDidChangeVisibleTextEditors: event,
            visibleTextEditors: [{ document, setDecorations: (type, options) => seen.decorations.set(type, options) }],
            showErrorMessage: async (message) => { seen.messages.push(message); },
            showWarningMessage: async (message) => { seen.messages.push(message); },
            showInputBox: async () => undefined,
        },
        workspace: {
            isTrusted,
            workspaceFolders: [{ uri: { fsPath: folder } }],
            getConfiguration: () => ({ get: (name) => ({ path: HARNESS, profile: '', debugPort: 0, gdb: 'gdb', ...settings })[name] }),
            createFileSystemWatcher: () => ({ onDidChange: watch(seen.watchers), onDidCreate: event, onDidDelete: event, dispose() {} }),
            onDidChangeConfiguration: event,
            findFiles: async () => [{ fsPath: path.join(profile, 'profile.fwp') }],
            fs: { stat: async () => ({ mtime: 1 }) },
        },
        languages: { registerCodeLensProvider: (_, provider) => { seen.lenses = () => provider.provideCodeLenses(document); return { dispose() {} }; } },
        commands: { registerCommand: (name, run) => { seen.commands[name] = run; return { dispose() {} }; } },
        debug: { startDebugging: async (_, configuration) => { seen.debugged.push(configuration); return true; } },
    };
    return { vscode, seen };
}

/** Activates the extension in this editor; returns how to end it. */
async function activate(vscode) {
    const load = Module._load;
    Module._load = (name, ...rest) => (name === 'vscode' ? vscode : load(name, ...rest));
    try {
        const file = require.resolve('../out/extension.js');
        delete require.cache[file];
        const context = { subscriptions: [] };
        await require(file).activate(context);
        return () => context.subscriptions.forEach((part) => part.dispose());
    } finally {
        Module._load = load;
    }
}

const heat = (seen) => [...seen.decorations.values()].flat().map((one) => [one.range.at[0] + 1, one.hoverMessage]);
const until = async (holds) => {
    while (!holds()) await new Promise((done) => setTimeout(done, 20));
};

test('the numbers are those of harness', () => {
    const text = harness(...model.annotateArguments(profile));
    const read = model.parse(text);
    const document = JSON.parse(text);
    const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);
    const lines = [...read.files.values()].flatMap((file) => [...file.lines.values()]);
    assert.equal(sum(lines), sum(document.functions.flatMap((one) => one.lines.map((line) => line.insns))));
    assert.equal(read.totalInsns, 3_000_000);
    const crc = model.costsOf(read, path.join(folder, 'targets/apps/work/crc.c'));
    const bitwise = document.functions.find((one) => one.name === 'crc32_bitwise');
    const own = crc.functions.find((one) => one.name === 'crc32_bitwise');
    assert.deepEqual([own.line, own.selfInsns, own.calls], [bitwise.line, bitwise.self_insns, bitwise.calls]);
});

test('a file is found by the end of its path, or not at all', () => {
    const files = new Map(['/build/a/src/uart.c', '/build/b/src/uart.c', 'apps/main.c', '/x/only.c', 'C:\\fw\\drv\\spi.c'].map((name) => [name, name]));
    const of = (file) => model.costsOf({ files }, file);
    assert.equal(of('/home/me/a/src/uart.c'), '/build/a/src/uart.c');
    assert.equal(of('/home/me/src/uart.c'), undefined);
    assert.equal(of('/home/me/apps/main.c'), 'apps/main.c');
    assert.equal(of('/home/me/other/main.c'), undefined);
    assert.equal(of('/home/me/only.c'), undefined);
    assert.equal(of('/home/me/drv/spi.c'), 'C:\\fw\\drv\\spi.c');
});

test('what is not an annotation of this version is refused', () => {
    for (const text of ['', '[]', '{}', 'null', '{"format":"harness-annotate","version":2,"functions":[]}', '{"format":"harness-annotate","version":1}',
        '{"format":"harness-annotate","version":1,"functions":[1]}', '{"format":"harness-annotate","version":1,"functions":[{"lines":5}]}']) {
        assert.throws(() => model.parse(text), Error, text);
    }
    const hostile = { format: 'harness-annotate', version: 1, image: 'x', total_insns: -1, functions: [
        { name: '__proto__', file: '__proto__', line: 1e300, self_insns: 'x', calls: 0, lines: [{ file: 5, line: 1, insns: 1 }, { file: 'a', line: -1, insns: 1 }] },
    ] };
    const read = model.parse(JSON.stringify(hostile));
    assert.deepEqual([read.files.size, read.totalInsns, read.hottest], [0, 0, 0]);
});

test('words for people', () => {
    assert.deepEqual([0, 950, 12_345, 4_500_000, 2e9].map(model.short), ['0', '950', '12.3k', '4.5M', '2.0G']);
    assert.deepEqual([0, 1, 50, 100].map((insns) => model.level(insns, 100)), [0, 0, 5, 7]);
    assert.equal(model.argument('-o'), './-o');
    const printed = (line) => `${line}\n`;
    assert.equal(model.elfOf(printed("gdb -ex \"target remote localhost:1\" -x /t/hooks build/fw.elf")), 'build/fw.elf');
    assert.equal(model.elfOf(printed("gdb -x /t/hooks 'my build/it'\\''s.elf'")), "my build/it's.elf");
    assert.equal(model.elfOf('gdb -x /t/hooks build/fw'), undefined);
});

test('lines and functions show their instructions, and follow the profile', async () => {
    const { vscode, seen } = editor();
    const end = await activate(vscode);
    const read = model.parse(harness(...model.annotateArguments(profile)));
    const { lines, functions } = model.costsOf(read, path.join(folder, 'targets/apps/work/crc.c'));
    assert.equal(heat(seen).length, lines.size);
    const [hottest] = [...lines].sort((one, other) => other[1] - one[1])[0];
    assert(heat(seen).some(([line, hover]) => line === hottest && hover.startsWith(model.group(lines.get(hottest)))));
    const titles = seen.lenses().map((lens) => lens.command.title);
    assert.equal(titles.length, 2 * functions.length);
    assert(titles.includes(model.lensTitle(functions[0], read.totalInsns)), titles);
    // Hidden and shown again.
    seen.commands['harness.toggleHeat']();
    assert.deepEqual([heat(seen), seen.lenses()], [[], []]);
    seen.commands['harness.toggleHeat']();
    // A longer run takes the profile's place.
    const before = seen.status.text;
    harness('fw.elf', '-q', '--for', '5M', '-o', profile);
    seen.watchers.forEach((listener) => listener());
    await until(() => seen.status.text !== before);
    assert.equal(seen.status.text, 'harness: 5.0M instructions');
    // One that cannot be read leaves nothing stale.
    writeFileSync(path.join(profile, 'profile.fwp'), 'broken');
    seen.watchers.forEach((listener) => listener());
    await until(() => seen.status.text === 'harness: no profile');
    assert.match(seen.status.tooltip, /profile\.fwp/);
    assert.deepEqual([heat(seen), seen.lenses()], [[], []]);
    end();
    harness('fw.elf', '-q', '--for', '3M', '-o', profile);
});

test('the debugger is started at the longest call, on the port that the server opened', async () => {
    const port = await new Promise((resolve) => {
        const probe = net.createServer().listen(0, '127.0.0.1', () => { const { port } = probe.address(); probe.close(() => resolve(port)); });
    });
    const { vscode, seen } = editor({ settings: { debugPort: port } });
    const end = await activate(vscode);
    await seen.commands['harness.debugLongestCall']('crc32_bitwise');
    assert.deepEqual(seen.messages, []);
    const [configuration] = seen.debugged;
    assert.equal(configuration.miDebuggerServerAddress, `localhost:${port}`);
    assert.equal(configuration.program, path.join(folder, 'fw.elf'));
    // It is GDB's protocol that answers there.
    const answer = await new Promise((resolve, reject) => {
        const socket = net.connect(port, '127.0.0.1', () => socket.write('$?#3f'));
        socket.on('data', (bytes) => { resolve(bytes.toString()); socket.destroy(); });
        socket.on('error', reject);
        socket.on('close', () => reject(new Error('the server hung up')));
    });
    assert.match(answer, /^\+/);
    end();
    await until(() => true);
});

test('a function that is not there is told, and no debugger starts', async () => {
    const { vscode, seen } = editor({ settings: { debugPort: 2331 } });
    const end = await activate(vscode);
    await seen.commands['harness.debugLongestCall']('crc32_bitwize');
    assert.equal(seen.debugged.length, 0);
    assert.match(seen.messages.join(), /crc32_bitwize.*crc32_bitwise/s);
    end();
});

test('only the configured program runs, without a shell, and nothing in an untrusted workspace', async () => {
    const program = path.join(folder, 'fake harness');
    const calls = path.join(folder, 'calls');
    writeFileSync(program, `#!/bin/sh\nprintf '%s\\n' "$@" >>'${calls}'\nexit 2\n`);
    chmodSync(program, 0o755);
    const untrusted = editor({ isTrusted: false, settings: { path: program, profile: '$(touch owned).profile' } });
    const endOne = await activate(untrusted.vscode);
    await untrusted.seen.commands['harness.openReport']();
    await untrusted.seen.commands['harness.debugLongestCall']('main');
    assert.throws(() => execFileSync('cat', [calls], { stdio: 'pipe' }));
    assert(untrusted.seen.messages.every((message) => message.includes('not trusted')) && untrusted.seen.messages.length > 0, untrusted.seen.messages.join());
    endOne();
    const trusted = editor({ settings: { path: program, profile: '$(touch owned).profile' } });
    const endTwo = await activate(trusted.vscode);
    assert.equal(execFileSync('cat', [calls], { encoding: 'utf8' }), `annotate\n${path.join(folder, '$(touch owned).profile')}\n--json\n`);
    endTwo();
});

test('the manifest lets no workspace choose the program, and names what the code registers', () => {
    const manifest = require('../package.json');
    const { properties } = manifest.contributes.configuration;
    for (const name of ['harness.path', 'harness.gdb']) assert.equal(properties[name].scope, 'machine');
    assert.equal(manifest.capabilities.untrustedWorkspaces.supported, false);
    const pipeline = require('../../../ci/problem-matcher.json').problemMatcher[0].pattern[0];
    assert.deepEqual(manifest.contributes.problemMatchers[0].pattern, pipeline);
});
