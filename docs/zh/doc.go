// SPDX-License-Identifier: Apache-2.0

// Package zh holds documents in Chinese. It has no code of its own. Its tests
// compare each page with the English one, so that neither changes alone.
//
// A full page has the same sections, code, figures and names in code style as
// the English page. A short page (modern, protocol, java-dual) shows no code,
// figure or name that the English page lacks. Readers of both languages judge
// whether the sentences say the same.
package zh
