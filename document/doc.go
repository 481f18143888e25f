// Package document reads the files that people write: plans, pipelines, skills,
// manifests, tables. They are YAML 1.2 or JSON, and either becomes one tree of
// JSON values that remember where they were written, so that a fault can be reported
// with its line.
//
// Text comes from anywhere. What has no single meaning in JSON is refused, and so
// is what would make a parser recurse or spin; nothing in a text can end the
// process. The package knows no kind of document and opens no file.
//
// Start with [Read], then [FieldsOf] the value it gives; [Problems] collects what
// is wrong.
package document
