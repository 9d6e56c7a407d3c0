// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads a problem matcher as those do that it is for, and prints what it finds in a program's output, as JSON.
//
//   matcher.mjs MATCHER OUTPUT
//
// What a matcher may say: GitHub's https://github.com/actions/toolkit/blob/main/docs/problem-matchers.md (a file of
// matchers, each with an owner that is unique and patterns; of several, the last one has the message, and only that may
// loop) and VS Code's https://code.visualstudio.com/docs/debugtest/tasks#_defining-a-problem-matcher (the same patterns,
// expressions of JavaScript). GitHub's runner is written in C#: what its expressions and JavaScript's read alike are
// groups, classes and quantifiers without look-behind, names or flags. It takes colours out of a line first.
import { readFile } from 'node:fs/promises';
import { main, promise } from './browser.mjs';

const GROUPS = ['file', 'fromPath', 'line', 'column', 'severity', 'code', 'message'];
const SEVERITIES = ['error', 'warning'];

function check({ problemMatcher, ...others }) {
    promise(Array.isArray(problemMatcher) && problemMatcher.length > 0, 'it has no problemMatcher');
    promise(Object.keys(others).length === 0, `it has ${Object.keys(others)}`);
    const owners = problemMatcher.map(({ owner }) => owner);
    promise(owners.every((owner) => typeof owner === 'string' && owner !== ''), 'a matcher has no owner');
    promise(new Set(owners).size === owners.length, 'two matchers have one owner');
    for (const { owner, severity, pattern, ...more } of problemMatcher) {
        promise(Object.keys(more).length === 0, `${owner} has ${Object.keys(more)}`);
        promise(severity === undefined || SEVERITIES.includes(severity), `${owner}: severity ${severity}`);
        promise(Array.isArray(pattern) && pattern.length > 0, `${owner} has no pattern`);
        for (const [at, { regexp, loop, ...groups }] of pattern.entries()) {
            promise(typeof regexp === 'string' && !/\(\?[^:]|\\[pPkGAzZ]/.test(regexp), `${owner}: ${regexp}`);
            const count = new RegExp(`${regexp}|`).exec('').length - 1;
            for (const [group, number] of Object.entries(groups)) {
                promise(GROUPS.includes(group), `${owner}: no ${group} is known`);
                promise(Number.isInteger(number) && number > 0 && number <= count, `${owner}: ${group} is ${number}`);
            }
            const isLast = at + 1 === pattern.length;
            promise(('message' in groups) === isLast, `${owner}: the message is the last pattern's`);
            promise(loop === undefined || (isLast && at > 0), `${owner}: only the last of several may loop`);
        }
    }
    return problemMatcher;
}

/** What a matcher of one pattern finds. */
function problems({ pattern: [{ regexp, ...groups }], severity: usual = 'error' }, lines) {
    const expression = new RegExp(regexp);
    return lines.flatMap((line) => {
        const found = expression.exec(line);
        if (!found) return [];
        const of = (group) => found[groups[group]];
        const severity = of('severity')?.toLowerCase() ?? usual;
        promise(SEVERITIES.includes(severity), `${line}: severity ${severity}`);
        return [{ file: of('file'), line: Number(of('line')), severity, message: of('message') }];
    });
}

await main(async ([matcher, output]) => {
    const matchers = check(JSON.parse(await readFile(matcher, 'utf8')));
    promise(matchers.every(({ pattern }) => pattern.length === 1), 'of several lines none is read here');
    const text = await readFile(output, 'utf8');
    const lines = text.split(/\r?\n/).map((line) => line.replace(/\x1b\[[0-9;]*m/g, ''));
    return matchers.flatMap((each) => problems(each, lines));
});
