// SPDX-License-Identifier: Apache-2.0

// Package zh holds documents in Chinese. It has no code of its own. Its tests
// compare each page with the English one, so that neither changes alone.
//
// Each page is shorter than the English one, and shows no code, figure or name
// that the English page lacks. Readers of both languages judge
// whether the sentences say the same.
package zh
