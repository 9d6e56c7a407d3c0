// SPDX-License-Identifier: MIT OR Apache-2.0
// What the extension knows of a profile, without the editor: the output of `harness annotate --json`, by file and line.

import * as path from 'path';

/** Version of harness' JSON that is read here. */
export const VERSION = 1;

/** Most bytes that harness may print about a profile. */
export const MAX_OUTPUT_BYTES = 256 * 1024 * 1024;

/** Steps of the colour of lines. */
export const LEVELS = 8;

export interface FunctionCost {
    name: string;
    /** Line of the definition, from 1. */
    line: number;
    /** Instructions of its code, with what is inlined into it. */
    selfInsns: number;
    calls: number;
}

export interface FileCost {
    /** Instructions by line, from 1. */
    lines: Map<number, number>;
    functions: FunctionCost[];
}

export interface Profile {
    image: string;
    totalInsns: number;
    /** Costs by the path in the debug information. */
    files: Map<string, FileCost>;
    /** Instructions of the hottest line. */
    hottest: number;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
    typeof value === 'object' && value !== null && !Array.isArray(value);
const isCount = (value: unknown): value is number => typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;

function list(value: unknown, what: string): Record<string, unknown>[] {
    if (!Array.isArray(value) || !value.every(isRecord)) throw new Error(`harness printed no list of ${what}`);
    return value;
}

/** Reads what `harness annotate PROFILE --json` prints. Lines that are part of several functions are added up. */
export function parse(text: string): Profile {
    const document: unknown = JSON.parse(text);
    if (!isRecord(document) || document.format !== 'harness-annotate') {
        throw new Error('harness printed something else than an annotation');
    }
    if (document.version !== VERSION) {
        throw new Error(`harness prints version ${String(document.version)} of its format, and this extension reads ${VERSION}`);
    }
    const profile: Profile = {
        image: String(document.image),
        totalInsns: isCount(document.total_insns) ? document.total_insns : 0,
        files: new Map(),
        hottest: 0,
    };
    const fileOf = (name: string): FileCost => {
        let file = profile.files.get(name);
        if (!file) profile.files.set(name, file = { lines: new Map(), functions: [] });
        return file;
    };
    for (const one of list(document.functions, 'functions')) {
        for (const line of list(one.lines, 'lines')) {
            if (typeof line.file !== 'string' || !isCount(line.line) || !isCount(line.insns)) continue;
            const { lines } = fileOf(line.file);
            const insns = (lines.get(line.line) ?? 0) + line.insns;
            lines.set(line.line, insns);
            profile.hottest = Math.max(profile.hottest, insns);
        }
        if (typeof one.file === 'string' && isCount(one.line) && isCount(one.self_insns) && isCount(one.calls)) {
            fileOf(one.file).functions.push({
                name: String(one.name), line: one.line, selfInsns: one.self_insns, calls: one.calls,
            });
        }
    }
    for (const file of profile.files.values()) file.functions.sort((a, b) => a.line - b.line || (a.name < b.name ? -1 : 1));
    return profile;
}

/** Parts of a path, without `.` and `..`. */
const parts = (name: string): string[] => name.split(/[\\/]+/).filter((part) => part !== '' && part !== '.' && part !== '..');

/**
 * The costs of a file of the editor. Debug information has the paths of the machine that compiled, so the path with most
 * equal parts at its end counts; where two have equally many, none is taken.
 */
export function costsOf(profile: Profile, file: string): FileCost | undefined {
    const own = parts(path.normalize(file));
    let best: FileCost | undefined;
    let most = 0;
    let isUnclear = false;
    for (const [name, cost] of profile.files) {
        const other = parts(name);
        let equal = 0;
        while (equal < Math.min(own.length, other.length) && own[own.length - 1 - equal] === other[other.length - 1 - equal]) equal++;
        // A relative path has to be there as a whole; of an absolute one, at least the name and its folder.
        if (equal === 0 || (equal < other.length && equal < 2)) continue;
        if (equal > most) {
            [best, most, isUnclear] = [cost, equal, false];
        } else if (equal === most) {
            isUnclear = true;
        }
    }
    return isUnclear ? undefined : best;
}

/** Step of a line's colour, from 0 to LEVELS - 1; the square root spreads out what is far below the hottest line. */
export function level(insns: number, hottest: number): number {
    if (insns <= 0 || hottest <= 0) return 0;
    return Math.min(LEVELS - 1, Math.floor(Math.sqrt(insns / hottest) * LEVELS));
}

export const group = (number: number): string => number.toLocaleString('en-US');

export const percent = (part: number, whole: number): string => `${(100 * part / Math.max(1, whole)).toFixed(2)} %`;

/** A count in few letters, for the margin: 950, 12.3k, 4.5M. */
export function short(insns: number): string {
    for (const [unit, letter] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']] as const) {
        if (insns >= unit) return `${(insns / unit).toFixed(insns >= 100 * unit ? 0 : 1)}${letter}`;
    }
    return String(insns);
}

/** Text above a function. */
export const lensTitle = (one: FunctionCost, totalInsns: number): string =>
    `${group(one.selfInsns)} instructions (${percent(one.selfInsns, totalInsns)}), ${group(one.calls)} ${one.calls === 1 ? 'call' : 'calls'}`;

/** Arguments of harness; none of them is ever read by a shell. A path that begins with - would be an option. */
export const argument = (file: string): string => (file.startsWith('-') ? `./${file}` : file);
export const annotateArguments = (profile: string): string[] => ['annotate', argument(profile), '--json'];
export const reportArguments = (profile: string): string[] => ['report', argument(profile), '--open', '-o', path.join(profile, 'report.html')];
export const debugArguments = (profile: string, place: string, port: number): string[] =>
    ['debug', argument(profile), '--at', place, '--port', String(port)];

/**
 * The path of the ELF file in the debug server's standard output: the line that starts GDB, printed once the server waits.
 * Undefined: the line is not complete yet.
 */
export function elfOf(stdout: string): string | undefined {
    const line = /^(.+)\r?\n/.exec(stdout)?.[1];
    // The file is the line's last word, in a shell's quotes if it needs some.
    const word = line && /(?:'(?:[^']|'\\'')*'|[^\s'])+$/.exec(line)?.[0];
    return word?.replace(/'((?:[^'])*)'|\\(.)/g, (_, quoted: string | undefined, escaped: string | undefined) => quoted ?? escaped ?? '');
}

/** Settings of the C/C++ extension's debugger. */
export const debugConfiguration = (name: string, elf: string, folder: string, port: number, gdb: string) => ({
    name,
    type: 'cppdbg',
    request: 'launch',
    program: path.resolve(folder, elf),
    cwd: folder,
    MIMode: 'gdb',
    miDebuggerPath: gdb,
    miDebuggerServerAddress: `localhost:${port}`,
    stopAtConnect: true,
});
