// Package zh holds documents in Chinese. It has no code of its own: its tests hold them against the
// English ones, so that neither changes alone.
//
// They compare code, figures, names in code style and the order of sections. Whether the sentences
// between them say the same is left to readers of both.
package zh
