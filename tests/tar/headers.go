// Command headers prints the bytes that Go's archive/tar writes for the headers that BuildKit's differ fills in, in
// hex, one line for each line of JSON that it reads: {"kind": "0", "name": "a/b", "size": 3, "target": ""}, where kind
// is the type flag: 0 for a file, 2 for a symbolic link, 5 for a directory, whose name ends in a slash.
//
// tests/tar/golden.json holds what it printed. To write that file again, with Go on the PATH:
//
//	python -m tests.tar.golden
package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"
)

type entry struct {
	Kind   string
	Name   string
	Size   int64
	Target string
}

// differ is the header as containerd's differ fills it in (archive/tar.go, HandleChange), with rewritten times.
func (e entry) differ() *tar.Header {
	header := &tar.Header{Name: e.Name, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	switch e.Kind {
	case "5":
		header.Typeflag, header.Mode = tar.TypeDir, 0755
	case "2":
		header.Typeflag, header.Mode, header.Linkname = tar.TypeSymlink, 0777, e.Target
	default:
		header.Typeflag, header.Mode, header.Size = tar.TypeReg, 0444, e.Size
	}
	return header
}

func written(header *tar.Header) []byte {
	var out bytes.Buffer
	if err := tar.NewWriter(&out).WriteHeader(header); err != nil {
		log.Fatalf("%q: %v", header.Name, err)
	}
	return out.Bytes()
}

// again reads a header and writes it once more, as BuildKit does where it rewrites timestamps.
func again(block []byte) []byte {
	header, err := tar.NewReader(bytes.NewReader(append(append([]byte{}, block...), make([]byte, 1024)...))).Next()
	if err != nil {
		log.Fatal(err)
	}
	header.ModTime = time.Unix(0, 0)
	return written(header)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<20)
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			log.Fatal(err)
		}
		block := written(e.differ())
		if !bytes.Equal(block, again(block)) {
			log.Fatalf("%q: its header differs when it is written again", e.Name)
		}
		fmt.Println(hex.EncodeToString(block))
	}
}
