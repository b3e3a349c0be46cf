// SPDX-License-Identifier: Apache-2.0

// Package clients shows how users of go-redis, rueidis and valkey-go open locks
// with the connections that they have: the same addresses, TLS, passwords and
// dialers. Each example is one file to copy. The page docs/guide/opening.md
// shows them.
package clients
