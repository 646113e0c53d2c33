// Package ai holds the vocabulary that every layer of the harness shares: messages and their content parts, tools,
// usage, finish reasons, stream parts and results.
//
// The package owns data and its JSON form only. It calls no model, runs no tool and knows neither runs nor harnesses.
// JSON names are those of the AI SDK (camelCase), because lifecycle state and continuations cross over to it.
package ai
