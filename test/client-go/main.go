// A check of an API server with the client library that operators are written with: shared informers (streaming and
// classic lists), leader election, pagination, the dynamic client, discovery, protobuf. Usage: client-go-check KUBECONFIG.
// Prints "N passed, M failed" and exits with 1 if anything failed.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"

	"k8s.io/apimachinery/pkg/runtime"
)

const namespace = "client-go-check"

type suite struct {
	config  *rest.Config
	clients kubernetes.Interface
	dynamic dynamic.Interface
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: client-go-check KUBECONFIG")
		os.Exit(2)
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	config.QPS = -1
	s := &suite{config: config, clients: kubernetes.NewForConfigOrDie(config), dynamic: dynamic.NewForConfigOrDie(config)}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if _, err := s.clients.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		fmt.Fprintln(os.Stderr, "creating the namespace:", err)
		os.Exit(1)
	}
	checks := []struct {
		name string
		run  func(context.Context) error
	}{
		{"typed client with conflicts and retries", s.typed},
		{"pagination", s.pagination},
		{"informer with a classic list", func(ctx context.Context) error { return s.informer(ctx, "classic", false) }},
		{"informer with a streaming list", func(ctx context.Context) error { return s.informer(ctx, "streaming", true) }},
		{"leader election", s.election},
		{"dynamic client and a custom resource", s.customResource},
		{"discovery", s.discover},
		{"a client that takes protobuf and nothing else", s.protobuf},
	}
	passed, failed := 0, 0
	for _, check := range checks {
		if err := check.run(ctx); err != nil {
			failed++
			fmt.Printf("%s: %v\n", check.name, err)
			continue
		}
		passed++
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func (s *suite) typed(ctx context.Context) error {
	maps := s.clients.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "typed-"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	stale := made.DeepCopy()
	made.Data = map[string]string{"a": "1"}
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	stale.Data = map[string]string{"a": "2"}
	if _, err := maps.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("a stale update gave %v, not a conflict", err)
	}
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		fresh, err := maps.Get(ctx, made.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		fresh.Data["b"] = "3"
		_, err = maps.Update(ctx, fresh, metav1.UpdateOptions{})
		return err
	}); err != nil {
		return err
	}
	patched, err := maps.Patch(ctx, made.Name, types.StrategicMergePatchType, []byte(`{"data":{"c":"4"}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if len(patched.Data) != 3 {
		return fmt.Errorf("after the patch: %v", patched.Data)
	}
	uid := made.UID
	if err := maps.Delete(ctx, made.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		return err
	}
	if _, err := maps.Get(ctx, made.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("after the deletion: %v", err)
	}
	return nil
}

func (s *suite) pagination(ctx context.Context) error {
	maps := s.clients.CoreV1().ConfigMaps(namespace)
	for i := 0; i < 57; i++ {
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("page-%03d", i), Labels: map[string]string{"set": "page"}}}
		if _, err := maps.Create(ctx, one, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return maps.List(ctx, options)
	})
	pages.PageSize = 10
	seen := 0
	err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: "set=page"}, func(runtime.Object) error { seen++; return nil })
	if err == nil && seen != 57 {
		err = fmt.Errorf("%d objects in pages of 10, not 57", seen)
	}
	return err
}

// An informer that follows creations, changes and deletions ends with what a fresh list shows.
func (s *suite) informer(ctx context.Context, set string, streaming bool) error {
	os.Setenv("KUBE_FEATURE_WatchListClient", fmt.Sprint(streaming))
	maps := s.clients.CoreV1().ConfigMaps(namespace)
	selector := "set=" + set
	factory := informers.NewSharedInformerFactoryWithOptions(s.clients, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = selector }))
	informer := factory.Core().V1().ConfigMaps().Informer()
	var mutex sync.Mutex
	added, deleted := 0, 0
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { mutex.Lock(); added++; mutex.Unlock() },
		DeleteFunc: func(any) { mutex.Lock(); deleted++; mutex.Unlock() },
	}); err != nil {
		return err
	}
	make := func(i int) error {
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%03d", set, i), Labels: map[string]string{"set": set}}}, metav1.CreateOptions{})
		return err
	}
	for i := 0; i < 20; i++ {
		if err := make(i); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("the cache did not sync")
	}
	for i := 20; i < 60; i++ {
		if err := make(i); err != nil {
			return err
		}
	}
	for i := 0; i < 60; i += 3 {
		if err := maps.Delete(ctx, fmt.Sprintf("%s-%03d", set, i), metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	for i := 1; i < 60; i += 3 {
		if _, err := maps.Patch(ctx, fmt.Sprintf("%s-%03d", set, i), types.MergePatchType, []byte(`{"data":{"x":"y"}}`), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	var problem error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return false, err
		}
		want, have := map[string]string{}, map[string]string{}
		for _, item := range list.Items {
			want[item.Name] = item.ResourceVersion
		}
		for _, item := range informer.GetStore().List() {
			one := item.(*corev1.ConfigMap)
			have[one.Name] = one.ResourceVersion
		}
		problem = fmt.Errorf("the cache has %d objects, a list %d", len(have), len(want))
		if len(want) != len(have) {
			return false, nil
		}
		for name, version := range want {
			if have[name] != version {
				problem = fmt.Errorf("%s: the cache has version %q, a list %q", name, have[name], version)
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return problem
	}
	mutex.Lock()
	defer mutex.Unlock()
	if added != 60 || deleted != 20 {
		return fmt.Errorf("the handlers saw %d additions and %d deletions, not 60 and 20", added, deleted)
	}
	return nil
}

func (s *suite) election(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mutex sync.Mutex
	var leaders []string
	acting := 0
	run := func(ctx context.Context, name string) {
		lock := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Name: "check", Namespace: namespace},
			Client: s.clients.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: name}}
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { mutex.Lock(); leaders = append(leaders, name); acting++; mutex.Unlock() },
				OnStoppedLeading: func() { mutex.Lock(); acting = 0; mutex.Unlock() },
			}})
	}
	leads := func(count int) error {
		return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
			mutex.Lock()
			defer mutex.Unlock()
			return len(leaders) == count, nil
		})
	}
	first, stopFirst := context.WithCancel(ctx)
	go run(first, "first")
	if err := leads(1); err != nil {
		return fmt.Errorf("nobody became leader: %w", err)
	}
	go run(ctx, "second")
	stopFirst()
	if err := leads(2); err != nil {
		return fmt.Errorf("nobody took over: %w", err)
	}
	mutex.Lock()
	defer mutex.Unlock()
	if leaders[0] != "first" || leaders[1] != "second" {
		return fmt.Errorf("the leaders were %v", leaders)
	}
	return nil
}

func (s *suite) customResource(ctx context.Context) error {
	crds := s.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "gears.check.example.io"},
		"spec": map[string]any{
			"group": "check.example.io", "scope": "Namespaced",
			"names": map[string]any{"plural": "gears", "kind": "Gear", "singular": "gear", "listKind": "GearList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
					"spec": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}}}}
	if _, err := crds.Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	gears := s.dynamic.Resource(schema.GroupVersionResource{Group: "check.example.io", Version: "v1", Resource: "gears"}).Namespace(namespace)
	gear := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "check.example.io/v1", "kind": "Gear",
		"metadata": map[string]any{"name": "g"}, "spec": map[string]any{"teeth": int64(9007199254740993)}}}
	var made *unstructured.Unstructured
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		var err error
		made, err = gears.Create(ctx, gear, metav1.CreateOptions{})
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("the custom resource was never served: %w", err)
	}
	teeth, _, err := unstructured.NestedInt64(made.Object, "spec", "teeth")
	if err != nil || teeth != 9007199254740993 {
		return fmt.Errorf("an int64 became %v (%v)", teeth, err)
	}
	events, err := gears.Watch(ctx, metav1.ListOptions{ResourceVersion: made.GetResourceVersion()})
	if err != nil {
		return err
	}
	defer events.Stop()
	if err := gears.Delete(ctx, "g", metav1.DeleteOptions{}); err != nil {
		return err
	}
	select {
	case event := <-events.ResultChan():
		if event.Type != "DELETED" {
			return fmt.Errorf("the watch showed %s, not DELETED", event.Type)
		}
	case <-time.After(20 * time.Second):
		return fmt.Errorf("the watch did not show the deletion")
	}
	return crds.Delete(ctx, crd.GetName(), metav1.DeleteOptions{})
}

func (s *suite) discover(ctx context.Context) error {
	for _, legacy := range []bool{false, true} {
		client := discovery.NewDiscoveryClientForConfigOrDie(s.config)
		client.UseLegacyDiscovery = legacy
		_, lists, err := client.ServerGroupsAndResources()
		if err != nil {
			return fmt.Errorf("legacy %v: %w", legacy, err)
		}
		var found []string
		for _, list := range lists {
			for _, resource := range list.APIResources {
				found = append(found, list.GroupVersion+"/"+resource.Name)
			}
		}
		sort.Strings(found)
		for _, want := range []string{"v1/pods", "v1/pods/binding", "v1/pods/status", "apps/v1/deployments/scale", "coordination.k8s.io/v1/leases"} {
			if i := sort.SearchStrings(found, want); i == len(found) || found[i] != want {
				return fmt.Errorf("legacy %v: no %s", legacy, want)
			}
		}
	}
	return nil
}

// Objects, lists and watches, written and read by Kubernetes' own protobuf codec.
func (s *suite) protobuf(ctx context.Context) error {
	config := rest.CopyConfig(s.config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	grace, limit := int64(7), resource.MustParse("1500m")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "proto", Labels: map[string]string{"set": "proto"}},
		Spec: corev1.PodSpec{SchedulerName: "nobody", TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
				LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{Path: "/x", Port: intstr.FromString("web")}}},
				Ports:     []corev1.ContainerPort{{Name: "web", ContainerPort: 80}},
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": limit}}}}}}
	pods := client.CoreV1().Pods(namespace)
	made, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	plain, err := s.clients.CoreV1().Pods(namespace).Get(ctx, "proto", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, one := range []*corev1.Pod{made, plain} {
		one.TypeMeta = metav1.TypeMeta{}
		one.ManagedFields = nil
	}
	if !equality.Semantic.DeepEqual(made, plain) {
		return fmt.Errorf("protobuf says %v, JSON says %v", made, plain)
	}
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "set=proto"})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	if len(list.Items) != 1 || list.Items[0].UID != made.UID || list.ResourceVersion == "" {
		return fmt.Errorf("the list is %v", list)
	}
	watch, err := pods.Watch(ctx, metav1.ListOptions{LabelSelector: "set=proto", ResourceVersion: list.ResourceVersion})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer watch.Stop()
	zero := int64(0)
	if err := pods.Delete(ctx, "proto", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	for {
		select {
		case event, open := <-watch.ResultChan():
			if !open {
				return fmt.Errorf("the watch ended before the pod did")
			}
			seen, isPod := event.Object.(*corev1.Pod)
			if !isPod || seen.UID != made.UID {
				return fmt.Errorf("the watch shows %v %v", event.Type, event.Object)
			}
			if event.Type == "DELETED" {
				_, err := pods.Get(ctx, "proto", metav1.GetOptions{})
				if !apierrors.IsNotFound(err) {
					return fmt.Errorf("the pod is gone, and its get says: %v", err)
				}
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("no event of the deletion came")
		}
	}
}
