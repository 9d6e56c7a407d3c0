//! The promise: the profile that formats are tested with says what it is said to say.

mod common;

use common::names;
use harness::functions::{self, Kind};
use harness::profile::Profile;

#[test]
fn every_name_that_hurts_executes_and_is_called_as_often_as_the_tests_of_formats_expect() {
    let dir = tempfile::tempdir().unwrap();
    let profile = Profile::load(&names::save(dir.path())).unwrap();
    let table = functions::table(&profile);
    let expected = names::functions();
    for named in &expected {
        let row = table.rows.iter().find(|row| row.start == Some(named.start)).unwrap();
        assert_eq!(
            (&row.name, row.self_insns, row.file.as_ref()),
            (&named.name, named.self_insns, named.file.as_ref())
        );
        assert_eq!(row.calls, named.calls, "{named:?}");
        assert!(row.samples > 0 || named.name == "main", "{named:?}");
    }
    let unnamed: Vec<_> = table.rows.iter().filter(|row| row.kind != Kind::Function).collect();
    assert_eq!(unnamed.iter().map(|row| row.self_insns).collect::<Vec<_>>(), [names::UNNAMED_INSNS]);
    assert_eq!(table.rows.len(), expected.len() + 1);
    let chars: Vec<usize> = expected.iter().map(|named| named.name.chars().count()).collect();
    assert!(chars.iter().filter(|&&chars| chars == 1000).count() == 2 && chars.contains(&0), "{chars:?}");
    assert_eq!(expected.iter().filter(|named| named.name == "init").count(), 2);
}
