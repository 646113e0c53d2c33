// Package config turns files, environment and flags into one checked Config.
//
// Sources, weakest first: built-in defaults; harness.yaml in the user's configuration folder (or the file that
// --config or HARNESS_CONFIG names); .harness/harness.yaml of the workspace; HARNESS_* variables; flags. It owns the
// list of settings, their names in each source and their checks. It starts nothing and opens no store.
//
// Invariants:
//   - A value that cannot be used is an error that names the setting, its source and how to mend it, also when a
//     stronger source would have won.
//   - What a repository brings counts only when a person trusted the exact content, and only for a few settings.
//   - A key is named (an environment variable or a file), never written in a file of settings, and no error, note or
//     printed Config holds one.
package config
