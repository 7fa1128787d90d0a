use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{flag, object, string, truth, weight};

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).expect("JSON")
}

#[test]
fn text_is_a_string_or_a_list_of_strings() {
    assert_eq!(string(Some(&raw(r#""a""#))).as_deref(), Some("a"));
    assert_eq!(string(Some(&raw(r#"["a\n", "b"]"#))).as_deref(), Some("a\nb"));
    for other in ["null", "1", "{}", "[1]"] {
        assert_eq!(string(Some(&raw(other))), None);
    }
    let flood = format!("[{}\"\"]", "\"\",".repeat(1 << 20));
    assert_eq!(string(Some(&raw(&flood))), None);
    assert!(flag(Some(&raw("true"))) && !flag(Some(&raw("1"))) && !flag(None));
}

/// `exit(3)` keeps the kernel: no end of it is waited for.
#[test]
fn what_is_no_flag_is_judged_as_python_does() {
    assert!(["true", "1", "3", "\"x\""].iter().all(|value| truth(Some(&raw(value)))));
    assert!(!["null", "false", "0", "\"\""].iter().any(|value| truth(Some(&raw(value)))) && !truth(None));
}

#[test]
fn an_object_loses_only_the_members_that_are_too_deep() {
    let deep = format!(r#"{{"good": 1, "deep": {}{}}}"#, "[".repeat(200), "]".repeat(200));
    assert_eq!(Value::Object(object(Some(&raw(&deep)))), json!({"good": 1}));
    assert!(object(Some(&raw("[]"))).is_empty());
}

#[test]
fn nested_json_weighs_what_it_takes() {
    let maps = format!("[{}{{}}]", r#"{"":0},"#.repeat(1_000));
    assert!(weight(Some(&raw(&maps))) > 1_000 * 11 * 56);
    let text = format!("\"{}\"", "[{,".repeat(1_000));
    assert!(weight(Some(&raw(&text))) < 3_200);
}
