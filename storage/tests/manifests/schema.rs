//! Enough of structural schemas to tell whether an object fits its definition:
//! unknown and missing fields, types, words of an enumeration, bounds.

use serde_json::Value;

/// What of an object its definition does not take.
pub fn breaches(definition: &Value, object: &Value) -> Vec<String> {
    let version = object["apiVersion"]
        .as_str()
        .unwrap()
        .rsplit('/')
        .next()
        .unwrap();
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let schema = versions
        .iter()
        .find(|candidate| candidate["name"] == version)
        .map(|candidate| &candidate["schema"]["openAPIV3Schema"]);
    let Some(schema) = schema else {
        return vec![format!("there is no version {version}")];
    };
    let mut found = Vec::new();
    let spec = &schema["properties"]["spec"];
    judge("spec", spec, &object["spec"], &mut found);
    found
}

fn judge(path: &str, schema: &Value, value: &Value, found: &mut Vec<String>) {
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    let integer_or_text = schema["x-kubernetes-int-or-string"] == true;
    let fits = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        _ => !integer_or_text || value.is_string() || value.is_i64(),
    };
    if !fits {
        return found.push(format!("{path}: {value} is not {}", schema["type"]));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        found.push(format!("{path}: {value} is none of {words:?}"));
    }
    if let (Some(number), Some(least)) = (value.as_f64(), schema["minimum"].as_f64())
        && number < least
    {
        found.push(format!("{path}: {number} is less than {least}"));
    }
    if let (Some(number), Some(most)) = (value.as_f64(), schema["maximum"].as_f64())
        && number > most
    {
        found.push(format!("{path}: {number} is more than {most}"));
    }
    if let Some(map) = value.as_object() {
        for (name, inner) in map {
            let path = format!("{path}.{name}");
            let known = &schema["properties"][name];
            let additional = &schema["additionalProperties"];
            if known.is_object() {
                judge(&path, known, inner, found);
            } else if additional.is_object() {
                judge(&path, additional, inner, found);
            } else if schema["x-kubernetes-preserve-unknown-fields"] != true {
                found.push(format!("{path}: there is no such field"));
            }
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            if !map.contains_key(name.as_str().unwrap()) {
                found.push(format!("{path}: {name} is missing"));
            }
        }
    }
    for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
        judge(&format!("{path}[{index}]"), &schema["items"], inner, found);
    }
}
