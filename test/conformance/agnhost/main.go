// Command agnhost is the part of Kubernetes' test image of that name which the conformance tests need where no images are
// pulled: their webhooks, a server that tells its name, and a program that waits. The tests' pods name the image and give
// one of these commands as arguments.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	conversion "k8s.io/kubernetes/test/images/agnhost/crd-conversion-webhook"
	"k8s.io/kubernetes/test/images/agnhost/crd-conversion-webhook/converter"
	"k8s.io/kubernetes/test/images/agnhost/pause"
	servehostname "k8s.io/kubernetes/test/images/agnhost/serve-hostname"
	testwebserver "k8s.io/kubernetes/test/images/agnhost/test-webserver"
	"k8s.io/kubernetes/test/images/agnhost/webhook"
)

// The command of the image makes a client of the API server first, which it does not use and for which process nodes give
// their pods no account. This one begins with what comes after it.
func serveConversions(command *cobra.Command, _ []string) {
	flags := command.Flags()
	certificate, _ := flags.GetString("tls-cert-file")
	key, _ := flags.GetString("tls-private-key-file")
	port, _ := flags.GetInt("port")
	http.HandleFunc("/crdconvert", converter.ServeExampleConvert)
	http.HandleFunc("/readyz", func(answer http.ResponseWriter, _ *http.Request) { _, _ = answer.Write([]byte("ok")) })
	klog.Fatal(http.ListenAndServeTLS(fmt.Sprintf(":%d", port), certificate, key, nil))
}

func main() {
	root := &cobra.Command{Use: "agnhost", SilenceUsage: true}
	conversion.CmdCrdConversionWebhook.Run = serveConversions
	root.AddCommand(conversion.CmdCrdConversionWebhook, pause.CmdPause, servehostname.CmdServeHostname,
		testwebserver.CmdTestWebserver, webhook.CmdWebhook)
	// The tests' pods ask for logs by its flags.
	logging := flag.NewFlagSet("logging", flag.ExitOnError)
	klog.InitFlags(logging)
	root.PersistentFlags().AddGoFlagSet(logging)
	if len(os.Args) == 1 {
		root.SetArgs([]string{"pause"}) // as the image does
	}
	if root.Execute() != nil {
		os.Exit(1)
	}
}
