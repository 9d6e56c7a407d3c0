// SPDX-License-Identifier: MIT OR Apache-2.0
// What docs/ci.md promises of action.yml and the GitLab template, each held by running their steps here with a real
// bundle. GitHub is a server of our own.
//
// BUNDLE=FILE node --test ci/pipeline/
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { parse } from 'yaml';
import { execute, run } from './action.mjs';

const repository = resolve(import.meta.dirname ?? new URL('.', import.meta.url).pathname, '../..');
const bundle = resolve(process.env.BUNDLE);
const IMAGE = 'riscv32-bare';
let place, temp, sha256;

before(async () => {
    place = await mkdtemp(join(tmpdir(), 'pipeline-'));
    // What one job leaves there the next has, as from the cache.
    temp = join(place, 'temp');
    await mkdir(temp);
    sha256 = createHash('sha256').update(await readFile(bundle)).digest('hex');
});
after(() => rm(place, { recursive: true }));

// A checkout with a suite that passes, or crosses a threshold.
async function checkout(limit = '100G', name = 'harness.toml') {
    const workspace = await mkdtemp(join(place, 'checkout-'));
    await cp(join(repository, 'targets/build', `${IMAGE}.elf`), join(workspace, 'firmware.elf'));
    const images = ['one', 'two'].map((name) => `[[image]]\nelf = "firmware.elf"\nname = "${name}"\n`);
    const defaults = `[defaults]\nmax-insns = "400M"\nthresholds = { total = "${limit}" }\n`;
    await writeFile(join(workspace, name), ['name = "firmware"', defaults, ...images].join('\n'));
    return workspace;
}

const job = (more) => run({ action: repository, temp, ...more, inputs: { bundle, ...more.inputs } });

// A GitHub that knows comments and nothing else, and refuses where it is told to.
async function github(refuses = false) {
    const seen = { comments: [], requests: [] };
    const server = createServer(async (request, response) => {
        let body = '';
        for await (const bytes of request) body += bytes;
        seen.requests.push(`${request.method} ${request.url}`);
        const answer = (status, value) => response.writeHead(status).end(JSON.stringify(value));
        assert.equal(request.headers.authorization, 'Bearer token-of-the-job');
        if (refuses) return answer(403, {});
        const page = /^\/repos\/OWNER\/REPOSITORY\/issues\/7\/comments\?per_page=100&page=(\d+)$/.exec(request.url);
        if (request.method === 'GET' && page) {
            return answer(200, seen.comments.slice((page[1] - 1) * 100, page[1] * 100));
        }
        if (request.method === 'POST' && request.url === '/repos/OWNER/REPOSITORY/issues/7/comments') {
            seen.comments.push({ url: `${seen.url}/comments/${seen.comments.length}`, ...JSON.parse(body) });
            return answer(201, {});
        }
        const old = request.method === 'PATCH' && seen.comments.find((it) => it.url === seen.url + request.url);
        if (!old) return answer(404, {});
        Object.assign(old, JSON.parse(body));
        return answer(200, {});
    });
    await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
    seen.url = `http://127.0.0.1:${server.address().port}`;
    // A test that fails does not wait for it.
    server.unref();
    return seen;
}

const asPullRequest = (api, more) => ({
    event: { pull_request: { number: 7, head: { repo: { full_name: 'OWNER/REPOSITORY' } } } },
    environment: { GITHUB_API_URL: api.url },
    ...more,
    inputs: { comment: 'true', ...more.inputs },
});

test('a suite that passes is a green step with summary, reports and artifact', async () => {
    const workspace = await checkout();
    const it = await job({ workspace, inputs: { sha256 } });
    assert.equal(it.code, 0, it.said);
    assert.deepEqual(it.outputs, { code: '0', report: join(workspace, 'harness-report') });
    assert.match(it.summary, /one/);
    assert.equal(it.path, join(temp, 'harness-bundle', sha256, 'bin'));
    for (const name of ['junit.xml', 'summary.md', 'report.json', 'one.profile']) {
        assert.ok((await readdir(it.outputs.report)).includes(name), name);
    }
    const artifact = it.uses.find((step) => step.uses.startsWith('actions/upload-artifact@'));
    assert.deepEqual([artifact.with.name, artifact.with.path], ['harness-report', it.outputs.report]);
    assert.ok(!it.ran.includes('Comment on the pull request'));
});

test('a threshold that is crossed is code 3, with comment and artifact all the same', async () => {
    const api = await github();
    const it = await job(asPullRequest(api, { workspace: await checkout('1000') }));
    assert.equal(it.code, 3, it.said);
    assert.equal(it.outputs.code, '3');
    assert.match(it.said, /::error /);
    assert.equal(api.comments.length, 1);
    assert.ok(api.comments[0].body.includes(it.summary), api.comments[0].body);
    assert.ok(it.uses.some((step) => step.uses.startsWith('actions/upload-artifact@')));
});

test('the next run writes its comment anew, among many others, and another part has one of its own', async () => {
    const api = await github();
    for (let other = 0; other < 120; other += 1) {
        api.comments.push({ url: `${api.url}/comments/x${other}`, body: 'hello' });
    }
    const workspace = await checkout();
    await job(asPullRequest(api, { workspace, inputs: {} }));
    await job(asPullRequest(api, { workspace, inputs: {} }));
    assert.equal(api.comments.length, 121);
    assert.equal(api.requests.filter((it) => it.startsWith('PATCH')).length, 1);
    await job(asPullRequest(api, { workspace, inputs: { shard: '1/2' } }));
    assert.equal(api.comments.length, 122);
});

test('a token that may not comment changes no verdict', async () => {
    const api = await github(true);
    const it = await job(asPullRequest(api, { workspace: await checkout() }));
    assert.equal(it.code, 0, it.said);
    assert.match(it.said, /::warning::harness: the summary could not be put/);
});

test('a shard runs its part and names its artifact', async () => {
    const it = await job({ workspace: await checkout(), inputs: { shard: '1/2' } });
    assert.equal(it.code, 0, it.said);
    const artifact = it.uses.find((step) => step.uses.startsWith('actions/upload-artifact@'));
    assert.equal(artifact.with.name, 'harness-report-1-of-2');
    const profiles = (await readdir(it.outputs.report)).filter((name) => name.endsWith('.profile'));
    assert.equal(profiles.length, 1);
});

test('inputs are words and never shell', async () => {
    const name = 'a b$(touch pwned)`touch pwned`;"\'.toml';
    const workspace = await checkout('100G', name);
    const it = await job({ workspace, inputs: { suite: name, output: 'out put', filter: 'name(one)' } });
    assert.equal(it.code, 0, it.said);
    assert.deepEqual((await readdir(workspace)).sort(), [name, 'firmware.elf', 'out put'].sort());
    assert.ok(!(await readdir(join(workspace, 'out put'))).includes('two.profile'));
});

// A suite that asks for what only its owner may: a file from outside of its folder.
async function greedy() {
    const workspace = await checkout();
    const secret = join(await mkdtemp(join(place, 'secret-')), 'key');
    await writeFile(secret, '4711');
    const suite = `[[image]]\nelf = "firmware.elf"\nfiles = { key = "${secret}" }\n`;
    await writeFile(join(workspace, 'harness.toml'), suite);
    return workspace;
}

test('the suite of a fork has no rights, and that of the repository has', async () => {
    const from = (repo) => ({ pull_request: { number: 7, head: { repo } } });
    const run = (head_repository) => ({ workflow_run: { head_repository } });
    const [own, other] = ['OWNER/REPOSITORY', 'STRANGER/REPOSITORY'].map((full_name) => ({ full_name }));
    for (const event of [{}, from(own), run(own)]) {
        const it = await job({ workspace: await greedy(), event });
        assert.equal(it.code, 0, it.said);
    }
    for (const event of [from(other), from(null), run(other)]) {
        const it = await job({ workspace: await greedy(), event });
        assert.equal(it.code, 2, it.said);
        assert.match(it.said, /outside of the suite's folder/);
    }
    // Nothing is kept of what its links lead to.
    for (const path of ['harness-report', 'harness-report/key']) {
        const workspace = await checkout();
        if (path.includes('/')) await mkdir(join(workspace, 'harness-report'));
        await symlink('/etc', join(workspace, path));
        const it = await job({ workspace, event: from(other) });
        assert.equal(it.code, 2, it.said);
        assert.ok(!it.uses.some((step) => step.uses.startsWith('actions/upload-artifact@')));
    }
    const said = async (untrusted, event) => (await job({ workspace: await greedy(), event, inputs: { untrusted } })).code;
    assert.deepEqual([await said('true', {}), await said('false', from(other)), await said('yes', {})], [2, 0, 2]);
});

test('a bundle with another hash, or from an open line, is not run', async () => {
    const inputs = [{ sha256: '0'.repeat(64) }, { bundle: 'http://127.0.0.1/x' }, { bundle: '/nowhere.tar.zst' }];
    for (const wrong of inputs) {
        const alone = await mkdtemp(join(place, 'temp-'));
        const it = await job({ workspace: await checkout(), temp: alone, inputs: wrong });
        assert.equal(it.code, 2, it.said);
        assert.match(it.said, /::error::harness: /);
        assert.ok(!it.ran.includes('harness test'));
        assert.ok(!it.uses.some((step) => step.uses.startsWith('actions/upload-artifact@')));
    }
});

// A server of one file, whose certificate curl is told to believe.
async function release() {
    const [key, certificate] = ['key.pem', 'certificate.pem'].map((name) => join(place, name));
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
    const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', '-keyout', key, '-out', certificate];
    assert.equal((await execute('openssl', [...made, ...subject], {})).code, 0);
    const bytes = await readFile(bundle);
    const seen = { requests: 0 };
    const identity = { key: await readFile(key), cert: await readFile(certificate) };
    const server = createSecureServer(identity, (_, response) => {
        seen.requests += 1;
        response.end(bytes);
    });
    await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
    seen.url = `https://localhost:${server.address().port}/harness.tar.zst`;
    seen.environment = { CURL_CA_BUNDLE: certificate };
    // A test that fails does not wait for it.
    server.unref();
    return seen;
}

test('the bundle of a release is fetched once, held against its hash and cached by its address', async () => {
    const server = await release();
    const alone = await mkdtemp(join(place, 'temp-'));
    const more = { temp: alone, environment: server.environment, inputs: { bundle: server.url, sha256 } };
    const keys = [];
    for (let time = 0; time < 2; time += 1) {
        const it = await job({ workspace: await checkout(), ...more });
        assert.equal(it.code, 0, it.said);
        const cache = it.uses.find((step) => step.uses.startsWith('actions/cache@'));
        assert.equal(cache.with.path, join(alone, cache.with.key));
        keys.push(cache.with.key);
    }
    assert.equal(keys[0], keys[1]);
    assert.match(keys[0], /^harness-[0-9a-f]{64}$/);
    assert.equal(server.requests, 1);
    // What is in the cache is held against the hash, too, and what was unpacked before is not run again.
    await writeFile(join(alone, keys[0], 'harness.tar.zst'), 'not what was fetched');
    await writeFile(join(alone, 'harness-bundle', sha256, 'bin/harness'), '#!/bin/sh\necho not what was unpacked\n');
    const it = await job({ workspace: await checkout(), ...more });
    assert.equal(it.code, 0, it.said);
    assert.ok(!it.said.includes('not what'), it.said);
    assert.equal(server.requests, 2);
});

// A bundle whose harness says what it is called by, and then is the real one's.
async function another(name) {
    const folder = await mkdtemp(join(place, 'another-'));
    const archive = join(folder, 'other.tar.zst');
    const script = `set -e
        mkdir x && zstd -q -d -c '${bundle}' | tar -x -C x --strip-components=1
        mv x/bin/harness x/bin/real
        printf '#!/bin/sh\\necho this is ${name}\\nexec "\${0%%/*}/real" "$@"\\n' >x/bin/harness
        chmod 755 x/bin/harness
        tar -c x | zstd -q -o '${archive}'`;
    const made = await execute('bash', ['-c', script], { cwd: folder });
    assert.equal(made.code, 0, made.said);
    return archive;
}

test('each use in a job runs its own bundle and holds it against its own hash', async () => {
    const other = await another('the second');
    const first = await job({ workspace: await checkout(), inputs: { sha256 } });
    const second = await job({ workspace: await checkout(), inputs: { bundle: other } });
    assert.deepEqual([first.code, second.code], [0, 0], second.said);
    assert.ok(!first.said.includes('this is') && second.said.includes('this is the second'), second.said);
    assert.notEqual(first.path, second.path);
    const wrong = await job({ workspace: await checkout(), inputs: { bundle: other, sha256 } });
    assert.equal(wrong.code, 2, wrong.said);
    assert.match(wrong.said, /has another SHA-256/);
    assert.ok(!wrong.ran.includes('harness test'));
});

test('what is an output of the step is one line', async () => {
    const injected = 'reports\ncode=0\n::error::injected';
    for (const inputs of [{ output: injected }, { artifact: injected }, { shard: '1/2\rx' }]) {
        const it = await job({ workspace: await checkout(), inputs });
        assert.equal(it.code, 2, it.said);
        assert.match(it.said, /::error::harness: a directory, `artifact` or `shard` has a line break in it/);
        assert.equal(it.outputs.code, '');
        assert.ok(!it.uses.some((step) => step.uses.startsWith('actions/upload-artifact@')));
    }
    const it = await job({ workspace: await checkout(), inputs: { bundle: '/nowhere\n::warning::injected' } });
    assert.equal(it.code, 2, it.said);
    assert.ok(!it.said.includes('\n::warning::'), it.said);
});

test("others' actions are named by their commit", async () => {
    for (const [file, count] of [['action.yml', 2], ['.github/workflows/ci.yml', 1]]) {
        const text = await readFile(join(repository, file), 'utf8');
        const uses = text.match(/^[ -]*uses: .*$/gm);
        assert.equal(uses.length, count, file);
        for (const line of uses) assert.match(line, /uses: actions\/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/, file);
    }
});

// A folder with every program of the PATH but these, and others in place of some.
async function programs(without, instead = {}) {
    const folder = await mkdtemp(join(place, 'programs-'));
    for (const directory of process.env.PATH.split(':')) {
        for (const name of await readdir(directory).catch(() => [])) {
            if (!without.includes(name)) await symlink(join(directory, name), join(folder, name)).catch(() => {});
        }
    }
    for (const [name, text] of Object.entries(instead)) {
        await rm(join(folder, name), { force: true });
        await writeFile(join(folder, name), text, { mode: 0o755 });
    }
    return folder;
}

test('a container without sudo gets what is missing as root', async () => {
    const api = await github();
    const installed = join(place, 'installed');
    const apt = `#!/bin/bash\necho "$@" >>'${installed}'\n[ "$1 $3" != '-q update' ] || exit 0
        for package; do
            for folder in /usr/bin /bin; do
                [ ! -e "$folder/$package" ] || ln -sf "$folder/$package" "$(dirname "$0")/$package"
            done
        done`;
    const folder = await programs(['sudo', 'jq', 'zstd'], { 'apt-get': apt, id: '#!/bin/sh\necho 0\n' });
    const more = asPullRequest(api, { workspace: await checkout() });
    const it = await job({ ...more, environment: { ...more.environment, PATH: folder } });
    assert.equal(it.code, 0, it.said);
    assert.equal(api.comments.length, 1, it.said);
    assert.match(await readFile(installed, 'utf8'), /install .*zstd[^]*install .*jq/);
});

test('where nothing can be installed, the verdict is given and what is missing is named', async () => {
    const api = await github();
    const more = asPullRequest(api, { workspace: await checkout() });
    const run = async (without) =>
        job({ ...more, environment: { ...more.environment, PATH: await programs(['apt-get', ...without]) } });
    const it = await run(['jq']);
    assert.equal(it.code, 0, it.said);
    assert.match(it.said, /::warning::harness: there is no comment on the pull request: curl or jq is missing/);
    const packed = await run(['zstd']);
    assert.equal(packed.code, 2, packed.said);
    assert.match(packed.said, /::error::harness: zstd is missing/);
});

test('without a bundle one is built, and built again when a source of it has changed', async () => {
    // Its sources are another project's, whose ci/bundle is quick.
    const action = await mkdtemp(join(place, 'action-'));
    for (const path of ['action.yml', 'ci/usage', 'ci/pipeline/bundle', 'ci/pipeline/comment', 'ci/pipeline/tools']) {
        await cp(join(repository, path), join(action, path), { recursive: true });
    }
    const built = join(action, 'built');
    await writeFile(join(action, 'ci/bundle'), `#!/bin/sh\necho >>'${built}'\necho '${bundle}'\n`, { mode: 0o755 });
    const sources = ['Cargo.toml', 'Cargo.lock', 'harness', 'plugin'];
    for (const source of sources) await writeFile(join(action, source), 'one');
    const alone = await mkdtemp(join(place, 'temp-'));
    const keys = [];
    for (const change of [undefined, undefined, ...sources]) {
        if (change) await writeFile(join(action, change), 'another');
        const it = await job({ action, temp: alone, workspace: await checkout(), inputs: { bundle: '' } });
        assert.equal(it.code, 0, it.said);
        keys.push(it.uses.find((step) => step.uses.startsWith('actions/cache@')).with.key);
    }
    assert.equal(keys[0], keys[1]);
    assert.equal(new Set(keys).size, 1 + sources.length);
    const times = (await readFile(built, 'utf8')).length;
    assert.equal(times, 1 + sources.length, 'what the cache has is not built again');
});

test('the GitLab job fetches the bundle once, runs its part and leaves what it says it leaves', async () => {
    const server = await release();
    const template = parse(await readFile(join(repository, 'ci/pipeline/gitlab.yml'), 'utf8'))['.harness'];
    const workspace = await checkout('1000');
    const environment = {
        PATH: process.env.PATH,
        HOME: workspace,
        ...template.variables,
        HARNESS_BUNDLE: server.url,
        HARNESS_SHA256: sha256,
        CI_NODE_INDEX: '2',
        CI_NODE_TOTAL: '2',
        ...server.environment,
    };
    const script = [...template.before_script, ...template.script].join('\n');
    for (let time = 0; time < 2; time += 1) {
        const it = await execute('bash', ['-eo', 'pipefail', '-c', script], { cwd: workspace, env: environment });
        assert.equal(it.code, 3, it.said);
    }
    assert.equal(server.requests, 1);
    // What another job may have left in the cache is not run.
    const [archive] = await readdir(join(workspace, '.harness-bundle'));
    await writeFile(join(workspace, '.harness-bundle', archive), 'not what was fetched');
    const again = await execute('bash', ['-eo', 'pipefail', '-c', script], { cwd: workspace, env: environment });
    assert.deepEqual([again.code, server.requests], [3, 2], again.said);
    const wrong = { ...environment, HARNESS_SHA256: '0'.repeat(64) };
    const refused = await execute('bash', ['-eo', 'pipefail', '-c', script], { cwd: workspace, env: wrong });
    assert.equal(refused.code, 2, refused.said);
    assert.match(refused.said, /has another SHA-256/);
    assert.deepEqual(await readdir(join(workspace, '.harness-bundle')), []);
    const left = await readdir(join(workspace, template.artifacts.paths[0]));
    assert.ok(left.includes('junit.xml'));
    assert.equal(template.artifacts.reports.junit, `${template.artifacts.paths[0]}/junit.xml`);
    assert.deepEqual(template.cache.paths, ['.harness-bundle/']);
    assert.equal(left.filter((name) => name.endsWith('.profile')).length, 1);
    // A merge request from a fork; one from a branch; what is said wins.
    const asked = async (more) => {
        const it = await execute('bash', ['-eo', 'pipefail', '-c', template.script.join('\n')], {
            cwd: workspace,
            env: { ...environment, CI_PROJECT_ID: '1', ...more },
        });
        return it.code;
    };
    const secret = join(place, 'gitlab-secret');
    await writeFile(secret, '4711');
    const suite = `[[image]]\nelf = "firmware.elf"\nfiles = { key = "${secret}" }\n`;
    await writeFile(join(workspace, 'harness.toml'), suite);
    const one = { CI_NODE_INDEX: '1', CI_NODE_TOTAL: '1' };
    assert.equal(await asked({ ...one, CI_MERGE_REQUEST_SOURCE_PROJECT_ID: '2' }), 2);
    assert.equal(await asked({ ...one, CI_MERGE_REQUEST_SOURCE_PROJECT_ID: '1' }), 0);
    assert.equal(await asked(one), 0);
    assert.equal(await asked({ ...one, HARNESS_UNTRUSTED: 'true' }), 2);
    assert.equal(await asked({ ...one, HARNESS_UNTRUSTED: 'false', CI_MERGE_REQUEST_SOURCE_PROJECT_ID: '2' }), 0);
});
