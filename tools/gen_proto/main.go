// Writes the test data of src/apiserver/proto: each object of samples/*.yaml as Kubernetes' own encoders write it, in
// protobuf (hexadecimal, 64 bytes a line) and in JSON. Run by hand, see README.md:
//
//	go run ../gen_proto/main.go ../gen_proto/samples ../../src/apiserver/proto/testdata
package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

func hexLines(data []byte) string {
	var out strings.Builder
	for len(data) > 0 {
		count := min(64, len(data))
		fmt.Fprintln(&out, hex.EncodeToString(data[:count]))
		data = data[count:]
	}
	return out.String()
}

func encode(encoder runtime.Encoder, object runtime.Object) []byte {
	var out bytes.Buffer
	if err := encoder.Encode(object, &out); err != nil {
		log.Fatal(err)
	}
	return out.Bytes()
}

func main() {
	paths, err := filepath.Glob(filepath.Join(os.Args[1], "*.yaml"))
	if err != nil || len(paths) == 0 {
		log.Fatal("no samples")
	}
	metav1.AddToGroupVersion(scheme.Scheme, metav1.Unversioned)
	toProtobuf := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	toJSON := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Pretty: true})
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			log.Fatal(err)
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
		if err != nil {
			log.Fatalf("%s: %v", path, err)
		}
		target := filepath.Join(os.Args[2], strings.TrimSuffix(filepath.Base(path), ".yaml"))
		if err := os.WriteFile(target+".hex", []byte(hexLines(encode(toProtobuf, object))), 0o644); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(target+".json", encode(toJSON, object), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
