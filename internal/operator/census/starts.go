// SPDX-License-Identifier: Apache-2.0

package census

import "time"

// starts reports whether all times that w wrote look like starts of leases.
// lease is the given one; 0: unknown. A value that the polls saw was written
// after the look before.
func (w *writer) starts(lease time.Duration) bool {
	most := time.Second
	if lease > 0 {
		most = min(most, lease/2)
	}
	return w.bounds.writes > 0 && w.lead <= most
}

// StartsWhat says in a sentence what Starts means.
func (w *Writer) StartsWhat() string {
	return w.who() + ": no time that it wrote was ahead of the server's clock when it was written, so its values are the start of a lease and not its end, or its clock is behind by about a lease"
}
