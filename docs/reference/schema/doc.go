// SPDX-License-Identifier: Apache-2.0

// Package schema holds a JSON Schema of each document that the command prints
// with --json. go test ./cmd/getsetlock/internal/cli -update writes them from
// the Go types. The test here validates the command's pinned documents. It is
// in a module of its own, so that nobody who builds a lock gets the validator.
package schema
