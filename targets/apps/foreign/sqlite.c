/* SQLite, from a package's sources, fills and asks a database in memory. Its file system has no files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sqlite3.h"

enum { ROUNDS = 21 };
static const char EXPECTED[] = "5dff2f67";

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    (void)vfs, (void)name, (void)flags, (void)out;
    file->pMethods = NULL;
    return SQLITE_CANTOPEN;
}
static int full_name(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
    (void)vfs;
    sqlite3_snprintf(size, out, "%s", name);
    return SQLITE_OK;
}
static int randomness(sqlite3_vfs *vfs, int size, char *out)
{
    (void)vfs;
    memset(out, 7, (size_t)size);
    return size;
}
static int current_time(sqlite3_vfs *vfs, double *now)
{
    (void)vfs;
    *now = 2460000.5;
    return SQLITE_OK;
}
static sqlite3_vfs none = {.iVersion = 1, .szOsFile = sizeof(sqlite3_file), .mxPathname = 64, .zName = "none",
                           .xOpen = open_file, .xFullPathname = full_name, .xRandomness = randomness,
                           .xCurrentTime = current_time};
int sqlite3_os_init(void) { return sqlite3_vfs_register(&none, 1); }
int sqlite3_os_end(void) { return SQLITE_OK; }

static unsigned sum = 1;
static int take(void *data, int columns, char **values, char **names)
{
    (void)data, (void)names;
    for (int column = 0; column < columns; column++)
        for (const char *text = values[column] ? values[column] : "-"; *text; text++)
            sum = sum * 31 + (unsigned char)*text;
    return 0;
}
static void run(sqlite3 *database, const char *sql)
{
    char *why = NULL;
    if (sqlite3_exec(database, sql, take, NULL, &why) != SQLITE_OK) {
        printf("%s\n", why ? why : "failed");
        exit(1);
    }
}

int main(void)
{
    sqlite3 *database;
    if (sqlite3_open(":memory:", &database) != SQLITE_OK)
        return 2;
    run(database, "create table part(id integer primary key, name text, weight integer, colour text);"
                  "create table used(part integer, by integer, count integer);"
                  "create index colours on part(colour, weight);");
    for (int round = 0; round < ROUNDS; round++) {
        run(database,
            "begin; delete from part; delete from used;"
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1200)"
            " insert into part select i, printf('part %d of %x', i, i * 7919), (i * 7919) % 1009,"
            " case i % 4 when 0 then 'red' when 1 then 'green' when 2 then 'blue' else 'plain' end from n;"
            "insert into used select id, (id * 31) % 97, id % 5 from part where weight % 3 <> 1; commit;"
            "select colour, count(*), sum(weight), max(name) from part group by colour order by 3 desc;"
            "select by, sum(count * weight) from used join part on part.id = used.part group by by having by < 40 order by by;"
            "select name from part where name like '%9% of %a%' order by weight, name limit 25;"
            "update part set weight = weight + 1 where colour = 'red' and weight between 100 and 600;"
            "select sum(weight), avg(length(name)), group_concat(substr(upper(name), 6, 3)) from part where id % 17 = 0;");
    }
    sqlite3_close(database);
    char answer[16];
    snprintf(answer, sizeof answer, "%08x", sum);
    printf("%s\n", answer);
    return strcmp(answer, EXPECTED) != 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
