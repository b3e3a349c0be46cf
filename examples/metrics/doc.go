// SPDX-License-Identifier: Apache-2.0

// Package metrics shows how to watch a lock.Client with Prometheus and
// OpenTelemetry. Both use lock.Hooks. Package lock depends on neither of them,
// which is why this is a module of its own. Copy what you need: it is an
// example and promises no stable API.
//
// Most programs need [Prometheus] or [Traces], and [Both] to use the two
// together.
package metrics
