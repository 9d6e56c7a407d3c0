// SPDX-License-Identifier: MIT OR Apache-2.0
// Proves nothing by itself: starts Chromium for the scripts beside it, and tells what a page complained about.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';

/** Where systems keep it; the variable is for those that keep it elsewhere. */
const PLACES = [
    process.env.CHROMIUM,
    '/usr/bin/chromium',
    '/usr/bin/chromium-browser',
    '/usr/bin/google-chrome',
    '/Applications/Chromium.app/Contents/MacOS/Chromium',
    '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

/** It must not ask the network for anything while it shows our files. */
const FLAGS = [
    '--no-sandbox',
    '--disable-gpu',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
];

/** Said by a script whose promise is broken; everything else that is thrown is a broken script. */
export class Broken extends Error {}

export function promise(holds, what) {
    if (!holds) throw new Broken(what);
}

/**
 * Opens a page and gives it to `look`, with the list of what it complained about so far: exceptions, errors on
 * its console, requests that failed or left this machine. What it still has complained about at the end breaks the
 * promise, unless `look` took it out of the list. Nothing is left behind, whatever happens.
 */
export async function open(address, look, options = {}) {
    const executablePath = PLACES.find((place) => place && existsSync(place));
    promise(executablePath, 'Chromium is missing: run ci/setup --viewers, or set CHROMIUM to its path');
    const profile = await mkdtemp(path.join(tmpdir(), 'viewer-'));
    let context;
    try {
        context = await chromium.launchPersistentContext(profile, {
            executablePath,
            args: FLAGS,
            viewport: { width: 1280, height: 800 },
            timeout: 60_000,
            ...options,
        });
        const complaints = [];
        const page = context.pages()[0] ?? (await context.newPage());
        page.setDefaultTimeout(60_000);
        page.on('pageerror', (error) => complaints.push(`exception: ${error.stack ?? error}`));
        page.on('crash', () => complaints.push('the page crashed'));
        page.on('console', (message) => {
            if (message.type() === 'error') complaints.push(`console: ${message.text()}`);
        });
        page.on('requestfailed', (request) => complaints.push(`request failed: ${request.url().slice(0, 200)}`));
        page.on('request', (request) => {
            const { protocol, hostname } = new URL(request.url());
            const here = ['file:', 'data:', 'blob:', 'about:'].includes(protocol) || hostname === '127.0.0.1';
            if (!here) complaints.push(`asked the network for ${request.url().slice(0, 200)}`);
        });
        await page.goto(address);
        const seen = await look(page, complaints);
        promise(complaints.length === 0, `the page complains:\n${complaints.join('\n')}`);
        return seen;
    } finally {
        await context?.close();
        await rm(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
    }
}

/** Contrast of the text on the page's background, as WCAG 2.2 computes it. */
function contrasts(kinds) {
    const parse = (color) => color.match(/[\d.]+/g).slice(0, 3).map((part) => {
        const value = Number(part) / 255;
        return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    const luminance = (color) => parse(color).reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
    const paper = luminance(getComputedStyle(document.body).backgroundColor);
    return kinds.filter((kind) => document.querySelector(kind)).map((kind) => {
        const ink = luminance(getComputedStyle(document.querySelector(kind)).color);
        return [kind, (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05)];
    });
}

/** Promises that text of these kinds can be read, and that the page is no wider than the window. */
export async function readable(page, kinds) {
    for (const [kind, contrast] of await page.evaluate(contrasts, kinds)) {
        promise(contrast >= 4.5, `${kind} has a contrast of ${contrast.toFixed(2)}`);
    }
    const [wide, shown] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    promise(wide <= shown, `the page is ${wide} pixels wide at ${shown}`);
}

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json' };

/** Serves a folder on a free port of this machine, and single files under the names given, while `use` runs. */
export async function serve(folder, files, use) {
    const server = createServer(async (request, response) => {
        const name = decodeURIComponent(new URL(request.url, 'http://127.0.0.1').pathname).slice(1);
        try {
            const inside = path.join(folder, path.normalize(`/${name}`));
            const content = await readFile(files[name] ?? inside);
            response.setHeader('content-type', TYPES[path.extname(name)] ?? 'application/octet-stream');
            response.end(content);
        } catch {
            response.statusCode = 404;
            response.end();
        }
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
        return await use(`http://127.0.0.1:${server.address().port}`);
    } finally {
        server.closeAllConnections();
        server.close();
    }
}

/** Runs a script: prints what it has seen as JSON, or the broken promise, and then exits with 1. */
export async function main(script) {
    try {
        console.log(JSON.stringify(await script(process.argv.slice(2)), null, 1));
    } catch (error) {
        console.error(error instanceof Broken ? error.message : error);
        process.exitCode = 1;
    }
}
