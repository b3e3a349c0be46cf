// SPDX-License-Identifier: Apache-2.0

// Package metrics watches a lock.Client with adapters/prometheus and
// adapters/otel at the same time: [Both] joins their hooks. It has rules for
// alerts, alerts.yml, which docs/guide/watching.md explains, and the tests of
// the adapters.
package metrics
