// SPDX-License-Identifier: Apache-2.0

// Package porting holds the Go code that docs/guide/porting.md and other pages
// show, so that it is compiled and run. It has nothing to import: everything is
// in its tests.
//
// What a document shows is a region of a file here, between the comments
//
//	// doc: NAME
//	// doc: end
//
// and is shown in the document after a comment that says where it comes from:
//
//	<!-- docs/porting/FILE: NAME -->
//
// Regions of programs in examples, and of bench, where other libraries are at
// hand, are shown in the same way. They have tests of their own.
//
// A test compares the two and refuses Go in those documents that comes from
// nowhere. It does not check the prose around it, nor code in other languages.
// Package tools/readme takes the Go of the README out, builds it and runs it.
// After a change here
//
//	go test ./docs/porting -update
//
// writes the regions into the documents.
package porting
