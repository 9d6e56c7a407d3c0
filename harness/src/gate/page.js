// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';
// What the pages of a suite have in common. Names are written as text only, so that no name can be markup.

const data = JSON.parse(document.getElementById('data').textContent);
const by = (id) => document.getElementById(id);
/** Rows of a table that are drawn at a time; the search reaches the others. */
const MOST_ROWS = 400;

function make(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    return fill(element, attributes, children);
}

function fill(element, attributes, children) {
    for (const [key, value] of Object.entries(attributes)) {
        if (key === 'onclick') element.addEventListener('click', value);
        else element.setAttribute(key, value);
    }
    element.append(...children);
    return element;
}

const group = (number) => number.toLocaleString('en-US');
/** A change in percent with enough digits to differ from 0, or in units where it begins at 0. */
function change(before, after) {
    const difference = after - before;
    const sign = difference > 0 ? '+' : difference < 0 ? '\u2212' : '\u00b1';
    if (before === 0 || difference === 0) return `${sign}${group(Math.abs(difference))}`;
    const percent = Math.abs(100 * difference / before);
    const digits = [2, 4, 6].find((count) => percent >= 0.5 / 10 ** count) ?? 9;
    return `${sign}${percent.toFixed(digits)} %`;
}

const cell = (text, kind = '') => make('td', { class: kind }, text);
const head = (...names) => make('tr', {}, ...names.map((name) =>
    make('th', { class: name.startsWith('#') ? 'number' : '', scope: 'col' }, name.replace('#', ''))));

const prefersDark = matchMedia('(prefers-color-scheme: dark)');
let theme = null;

function paint() {
    document.documentElement.dataset.theme = theme ?? (prefersDark.matches ? 'dark' : 'light');
    by('theme').textContent = document.documentElement.dataset.theme === 'dark' ? 'Light' : 'Dark';
}

by('theme').addEventListener('click', () => {
    theme = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
    paint();
});
prefersDark.addEventListener('change', paint);
addEventListener('keydown', (event) => {
    if (event.key === '/' && event.target !== by('search')) {
        event.preventDefault();
        by('search').focus();
    }
});
paint();

