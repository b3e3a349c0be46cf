// SPDX-License-Identifier: Apache-2.0

package clients

import "fmt"

// doc: address

// address names the database; the connections come from Options.Conn.
func address(db int) string { return fmt.Sprintf("redis://existing.connections/%d", db) }

// doc: end
