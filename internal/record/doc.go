// SPDX-License-Identifier: Apache-2.0

// Package record is what packages migrate and fleet share of the registry on
// the server: the names of its keys, the form of its texts, and the scripts
// that change it. Package migrate says what the texts mean.
package record
