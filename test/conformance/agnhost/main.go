// Command agnhost is the part of Kubernetes' test image of that name which the conformance tests need where no images are
// pulled: their webhooks, a server that tells its name, and a program that waits. The tests' pods name the image and give
// one of these commands as arguments.
package main

import (
	"flag"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	conversion "k8s.io/kubernetes/test/images/agnhost/crd-conversion-webhook"
	"k8s.io/kubernetes/test/images/agnhost/pause"
	servehostname "k8s.io/kubernetes/test/images/agnhost/serve-hostname"
	testwebserver "k8s.io/kubernetes/test/images/agnhost/test-webserver"
	"k8s.io/kubernetes/test/images/agnhost/webhook"
)

func main() {
	root := &cobra.Command{Use: "agnhost", SilenceUsage: true}
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
