// SPDX-License-Identifier: Apache-2.0

package redistest

import "bufio"

// ReadCommand reads one command from a client and returns its bytes too.
func ReadCommand(r *bufio.Reader) (Command, []byte, error) { return readCommand(r) }

// ReadValue reads one value from a server and returns its bytes unchanged.
func ReadValue(r *bufio.Reader) ([]byte, error) { return readValue(r) }

// Unasked reports whether a server's value answers no command: a push, or a
// message to a subscriber.
func Unasked(v []byte) bool { return unasked(v) }
