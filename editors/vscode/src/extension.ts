// SPDX-License-Identifier: MIT OR Apache-2.0
// The editor's side: gutter heat, lenses, commands. Everything about the numbers is in model.ts.

import { ChildProcess, execFile, spawn } from 'child_process';
import * as path from 'path';
import * as vscode from 'vscode';
import * as model from './model';

/** Time between a change of the profile and reading it: a run writes several files. */
const SETTLE_MS = 300;

class Harness implements vscode.CodeLensProvider, vscode.Disposable {
    private profile: model.Profile | undefined;
    /** The profile's directory. */
    private directory: string | undefined;
    private isShown = true;
    /** Number of the latest reading: an earlier one that ends later is dropped. */
    private reading = 0;
    private timer: NodeJS.Timeout | undefined;
    private server: ChildProcess | undefined;
    private readonly changed = new vscode.EventEmitter<void>();
    readonly onDidChangeCodeLenses = this.changed.event;
    private readonly levels: vscode.TextEditorDecorationType[];
    private readonly status = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Left);
    private readonly parts: vscode.Disposable[] = [];

    constructor() {
        // Heat from pale to strong, on light and on dark backgrounds.
        this.levels = Array.from({ length: model.LEVELS }, (_, step) => vscode.window.createTextEditorDecorationType({
            isWholeLine: true,
            backgroundColor: `rgba(240, 120, 30, ${(0.03 + 0.05 * step).toFixed(2)})`,
            overviewRulerColor: step >= model.LEVELS / 2 ? 'rgba(240, 120, 30, 0.8)' : undefined,
            overviewRulerLane: vscode.OverviewRulerLane.Right,
            before: { color: new vscode.ThemeColor('editorLineNumber.foreground'), margin: '0 1ch 0 0', width: '6ch' },
        }));
        const watcher = vscode.workspace.createFileSystemWatcher('**/profile.fwp');
        const again = () => {
            clearTimeout(this.timer);
            this.timer = setTimeout(() => void this.read(), SETTLE_MS);
        };
        this.parts.push(
            this.changed, this.status, ...this.levels, watcher,
            watcher.onDidChange(again), watcher.onDidCreate(again), watcher.onDidDelete(again),
            vscode.workspace.onDidChangeConfiguration((event) => { if (event.affectsConfiguration('harness')) again(); }),
            vscode.window.onDidChangeVisibleTextEditors(() => this.paint()),
            vscode.languages.registerCodeLensProvider({ scheme: 'file' }, this),
            vscode.commands.registerCommand('harness.chooseProfile', () => this.choose()),
            vscode.commands.registerCommand('harness.toggleHeat', () => {
                this.isShown = !this.isShown;
                this.paint();
                this.changed.fire();
            }),
            vscode.commands.registerCommand('harness.openReport', () => this.report()),
            vscode.commands.registerCommand('harness.debugLongestCall', (name?: unknown) => this.debug(name)),
        );
    }

    private setting<T>(name: string): T {
        return vscode.workspace.getConfiguration('harness').get<T>(name) as T;
    }

    private get folder(): string | undefined {
        return vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
    }

    /** Directory of the profile: the configured one, or the newest of the workspace. */
    private async find(): Promise<string | undefined> {
        const { folder } = this;
        if (!folder) return undefined;
        const configured = this.setting<string>('profile');
        if (configured) return path.resolve(folder, configured);
        const found = await vscode.workspace.findFiles('**/profile.fwp', '**/node_modules/**', 100);
        const timed = await Promise.all(found.map(async (uri) => ({ uri, time: (await vscode.workspace.fs.stat(uri)).mtime })));
        timed.sort((one, other) => other.time - one.time || (one.uri.fsPath < other.uri.fsPath ? -1 : 1));
        return timed[0] && path.dirname(timed[0].uri.fsPath);
    }

    /** Output of harness, which is run directly: no shell reads its arguments. */
    private run(args: string[]): Promise<string> {
        if (!vscode.workspace.isTrusted) return Promise.reject(new Error('this workspace is not trusted, so harness is not run'));
        return new Promise((resolve, reject) => {
            execFile(this.setting<string>('path'), args, { cwd: this.folder, maxBuffer: model.MAX_OUTPUT_BYTES }, (error, stdout, stderr) => {
                if (error) reject(new Error(stderr.trim() || error.message));
                else resolve(stdout);
            });
        });
    }

    /** Reads the profile and shows it. A profile that cannot be read is told in the status bar, and nothing stale is shown. */
    async read(): Promise<void> {
        const reading = ++this.reading;
        let profile: model.Profile | undefined;
        let directory: string | undefined;
        let problem: string | undefined;
        try {
            directory = await this.find();
            if (directory) profile = model.parse(await this.run(model.annotateArguments(directory)));
        } catch (error) {
            problem = error instanceof Error ? error.message : String(error);
        }
        if (reading !== this.reading) return;
        [this.profile, this.directory] = [profile, directory];
        this.status.text = profile ? `harness: ${model.short(profile.totalInsns)} instructions` : 'harness: no profile';
        this.status.tooltip = problem ?? (directory ? `${directory}: ${profile?.image}` : 'Run harness on a firmware, then its profile is shown here.');
        this.status.command = 'harness.chooseProfile';
        this.status.show();
        this.paint();
        this.changed.fire();
    }

    /** Colours the lines of all visible editors. */
    private paint(): void {
        for (const editor of vscode.window.visibleTextEditors) {
            const byLevel: vscode.DecorationOptions[][] = this.levels.map(() => []);
            const { profile } = this;
            const cost = this.isShown && profile && editor.document.uri.scheme === 'file'
                ? model.costsOf(profile, editor.document.uri.fsPath) : undefined;
            for (const [line, insns] of cost?.lines ?? []) {
                if (!profile || line < 1 || line > editor.document.lineCount) continue;
                byLevel[model.level(insns, profile.hottest)]?.push({
                    range: new vscode.Range(line - 1, 0, line - 1, 0),
                    hoverMessage: `${model.group(insns)} instructions, ${model.percent(insns, profile.totalInsns)} of the run`,
                    renderOptions: { before: { contentText: model.short(insns).padStart(6, '\u2007') } },
                });
            }
            this.levels.forEach((type, step) => editor.setDecorations(type, byLevel[step] ?? []));
        }
    }

    provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
        const { profile } = this;
        const cost = this.isShown && profile ? model.costsOf(profile, document.uri.fsPath) : undefined;
        if (!profile || !cost) return [];
        return cost.functions.filter((one) => one.line >= 1 && one.line <= document.lineCount).flatMap((one) => {
            const range = new vscode.Range(one.line - 1, 0, one.line - 1, 0);
            return [
                new vscode.CodeLens(range, { title: model.lensTitle(one, profile.totalInsns), command: 'harness.openReport' }),
                new vscode.CodeLens(range, { title: 'debug at its longest call', command: 'harness.debugLongestCall', arguments: [one.name] }),
            ];
        });
    }

    private async choose(): Promise<void> {
        const found = await vscode.workspace.findFiles('**/profile.fwp', '**/node_modules/**', 100);
        const names = found.map((uri) => vscode.workspace.asRelativePath(path.dirname(uri.fsPath))).sort();
        const name = await vscode.window.showQuickPick(names, { placeHolder: 'Profile to show' });
        if (name) await vscode.workspace.getConfiguration('harness').update('profile', name, vscode.ConfigurationTarget.Workspace);
    }

    private async report(): Promise<void> {
        if (!this.directory) return void vscode.window.showWarningMessage('harness: there is no profile in this workspace');
        try {
            await this.run(model.reportArguments(this.directory));
        } catch (error) {
            void vscode.window.showErrorMessage(`harness: ${error instanceof Error ? error.message : String(error)}`);
        }
    }

    /** Starts the debug server at the function's longest call, and the debugger once the server waits. */
    private async debug(argument: unknown): Promise<void> {
        const { directory, folder } = this;
        if (!directory || !folder) return void vscode.window.showWarningMessage('harness: there is no profile in this workspace');
        if (!vscode.workspace.isTrusted) return void vscode.window.showWarningMessage('harness: this workspace is not trusted');
        const name = typeof argument === 'string' ? argument
            : await vscode.window.showInputBox({ prompt: 'Function whose longest call to debug', value: 'main' });
        if (!name) return;
        this.server?.kill();
        const port = this.setting<number>('debugPort');
        const server = spawn(this.setting<string>('path'), model.debugArguments(directory, `max:${name}`, port), { cwd: folder });
        this.server = server;
        const elf = await new Promise<string | undefined>((resolve) => {
            let [stdout, stderr] = ['', ''];
            server.stdout.on('data', (bytes: Buffer) => {
                stdout += bytes.toString();
                const found = model.elfOf(stdout);
                if (found) resolve(found);
            });
            server.stderr.on('data', (bytes: Buffer) => { stderr = (stderr + bytes.toString()).slice(-4000); });
            server.on('error', (error) => { stderr = error.message; resolve(undefined); });
            server.on('close', () => {
                if (stderr && this.server === server && !model.elfOf(stdout)) void vscode.window.showErrorMessage(`harness: ${stderr.trim()}`);
                resolve(undefined);
            });
        });
        if (!elf || this.server !== server) return;
        const settings = model.debugConfiguration(`${name}: longest call`, elf, folder, port, this.setting<string>('gdb'));
        const isStarted = await vscode.debug.startDebugging(vscode.workspace.workspaceFolders?.[0], settings);
        if (!isStarted) server.kill();
    }

    dispose(): void {
        clearTimeout(this.timer);
        this.server?.kill();
        this.parts.forEach((part) => part.dispose());
    }
}

export async function activate(context: vscode.ExtensionContext): Promise<void> {
    const harness = new Harness();
    context.subscriptions.push(harness);
    await harness.read();
}
