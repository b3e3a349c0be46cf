// Package metrics shows how a lock.Client is watched with Prometheus and OpenTelemetry. Both hang on
// lock.Hooks; the lock itself depends on neither, which is why this is a module of its own. Copy what
// you need: it is an example and promises no stable API.
package metrics
