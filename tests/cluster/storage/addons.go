package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"reflect"
	"slices"
	"sort"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"moonfence.invalid/csi-driver/san"
)

// What stands in for the controller and the sidecars of CSI-Addons: csi-addons/kubernetes-csi-addons v0.14 has more
// kinds and speaks to drivers by a protocol of its own, here the storage is told directly. What it does with its
// objects is done here in the same order, with the same words.

const (
	addonsGroup      = "csiaddons.openshift.io"
	fenceFinalizer   = addonsGroup + "/network-fence"
	classesAnnotated = addonsGroup + "/networkfenceclass-names"
	addonsNamespace  = "kube-system" // of the driver
	fencedMessage    = "fencing operation successful"
	unfencedMessage  = "unfencing operation successful"
)

var (
	fenceKind  = schema.GroupVersionResource{Group: addonsGroup, Version: "v1alpha1", Resource: "networkfences"}
	classKind  = schema.GroupVersionResource{Group: addonsGroup, Version: "v1alpha1", Resource: "networkfenceclasses"}
	clientKind = schema.GroupVersionResource{Group: addonsGroup, Version: "v1alpha1", Resource: "csiaddonsnodes"}
	csiKind    = schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "csinodes"}
)

type addons struct {
	storage *san.SAN
	client  dynamic.Interface
	done    map[types.UID]int64 // generations of NetworkFences that were carried out
}

func newAddons(storage *san.SAN, kubeconfig string) (*addons, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	return &addons{storage, client, map[types.UID]int64{}}, err
}

// run looks whenever a NetworkFence changes, and every few seconds.
func (a *addons) run() {
	for {
		version, err := a.look(context.Background())
		if err == nil {
			err = a.wait(version)
		}
		if err != nil {
			log.Print(err)
			time.Sleep(time.Second)
		}
	}
}

// wait returns when a NetworkFence is another one than in that version, or after a while.
func (a *addons) wait(version string) error {
	ctx, end := context.WithTimeout(context.Background(), 5*time.Second)
	defer end()
	watcher, err := a.client.Resource(fenceKind).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return fmt.Errorf("watch NetworkFences: %w", err)
	}
	defer watcher.Stop()
	<-watcher.ResultChan() // closed at the end of the time
	return nil
}

// look does what is to be done, and says as of which version.
func (a *addons) look(ctx context.Context) (string, error) {
	classes, err := a.client.Resource(classKind).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list NetworkFenceClasses: %w", err)
	}
	drivers := map[string]string{}
	for _, class := range classes.Items {
		drivers[class.GetName()] = text(class, "spec", "provisioner")
	}
	fences, err := a.client.Resource(fenceKind).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list NetworkFences: %w", err)
	}
	var failed []error
	for _, fence := range fences.Items {
		if err := a.carryOut(ctx, fence, drivers); err != nil {
			failed = append(failed, fmt.Errorf("NetworkFence %s: %w", fence.GetName(), err))
		}
	}
	if err := a.publish(ctx, drivers); err != nil {
		failed = append(failed, fmt.Errorf("tell the nodes' addresses: %w", err))
	}
	return fences.GetResourceVersion(), errors.Join(failed...)
}

func text(object unstructured.Unstructured, fields ...string) string {
	found, _, _ := unstructured.NestedString(object.Object, fields...)
	return found
}

// --- NetworkFence

// carryOut does once what each generation wants; after a restart once more. A deletion lifts nothing.
func (a *addons) carryOut(ctx context.Context, fence unstructured.Unstructured, drivers map[string]string) error {
	known := slices.ContainsFunc(fence.GetFinalizers(), isOurs)
	if fence.GetDeletionTimestamp() != nil {
		if !known {
			return nil
		}
		return a.setFinalizers(ctx, fence, slices.DeleteFunc(fence.GetFinalizers(), isOurs))
	}
	if a.done[fence.GetUID()] == fence.GetGeneration() {
		return nil
	}
	driver, class := text(fence, "spec", "driver"), text(fence, "spec", "networkFenceClassName")
	if class != "" {
		driver = drivers[class]
	}
	if driver != driverName {
		// As with the real one nobody is told, and there is no result, ever.
		log.Printf("NetworkFence %s: class %q and driver %q are not of %s", fence.GetName(), class, driver, driverName)
		return nil
	}
	if !known {
		if err := a.setFinalizers(ctx, fence, append(fence.GetFinalizers(), fenceFinalizer)); err != nil {
			return err
		}
	}
	result, message := a.tell(fence)
	err := a.patch(ctx, a.client.Resource(fenceKind), fence.GetName(),
		map[string]any{"status": map[string]any{"result": result, "message": message}}, "status")
	if err == nil && result == "Succeeded" {
		a.done[fence.GetUID()] = fence.GetGeneration()
	}
	return err
}

func isOurs(finalizer string) bool { return finalizer == fenceFinalizer }

// tell tells the storage, and says what it said.
func (a *addons) tell(fence unstructured.Unstructured) (result, message string) {
	act, message := a.storage.Refuse, fencedMessage
	if text(fence, "spec", "fenceState") == "Unfenced" {
		act, message = a.storage.Admit, unfencedMessage
	}
	ranges, _, err := unstructured.NestedStringSlice(fence.Object, "spec", "cidrs")
	for _, each := range ranges {
		if err == nil {
			err = act(each)
		}
	}
	if err != nil {
		return "Failed", err.Error()
	}
	log.Printf("NetworkFence %s, %v: %s", fence.GetName(), ranges, message)
	return "Succeeded", message
}

func (a *addons) setFinalizers(ctx context.Context, fence unstructured.Unstructured, finalizers []string) error {
	return a.patch(ctx, a.client.Resource(fenceKind), fence.GetName(),
		map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
}

// --- CSIAddonsNode

// publish says of each node that has the driver under which address the storage knows it. It goes on saying so of a
// node that is silent, which cannot say it then.
func (a *addons) publish(ctx context.Context, drivers map[string]string) error {
	nodes, err := a.client.Resource(csiKind).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	told, err := a.client.Resource(clientKind).Namespace(addonsNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	there := map[string]unstructured.Unstructured{}
	for _, each := range told.Items {
		if text(each, "spec", "driver", "name") == driverName {
			there[each.GetName()] = each
		}
	}
	for _, node := range nodes.Items {
		if !hasDriver(node) {
			continue
		}
		object, err := a.clientOf(node.GetName(), drivers)
		if err != nil {
			return err
		}
		found, ok := there[object.GetName()]
		// What was told before the Node was made anew was told of another machine.
		if ok && !found.GetCreationTimestamp().Time.Before(node.GetCreationTimestamp().Time) {
			delete(there, object.GetName())
		} else if ok {
			continue // made anew at the next look
		}
		if err := a.write(ctx, object, found, ok); err != nil {
			return err
		}
	}
	for name := range there {
		err := a.client.Resource(clientKind).Namespace(addonsNamespace).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func hasDriver(node unstructured.Unstructured) bool {
	drivers, _, _ := unstructured.NestedSlice(node.Object, "spec", "drivers")
	return slices.ContainsFunc(drivers, func(each any) bool {
		fields, _ := each.(map[string]any)
		return fields["name"] == driverName
	})
}

// clientOf is what is to be told of a node.
func (a *addons) clientOf(node string, drivers map[string]string) (*unstructured.Unstructured, error) {
	address, err := a.storage.Address(node)
	if err != nil {
		return nil, err
	}
	classes := []string{}
	for class, driver := range drivers {
		if driver == driverName {
			classes = append(classes, class)
		}
	}
	sort.Strings(classes)
	names, err := json.Marshal(classes)
	if err != nil {
		return nil, err
	}
	known := []any{}
	for _, class := range classes {
		known = append(known, map[string]any{"networkFenceClassName": class, "ClientDetails": []any{map[string]any{
			"id": "san", "cidrs": []any{fmt.Sprintf("%s/%d", address, address.BitLen())}}}})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": addonsGroup + "/v1alpha1", "kind": "CSIAddonsNode",
		"metadata": map[string]any{"name": node + "-" + driverName, "namespace": addonsNamespace,
			"annotations": map[string]any{classesAnnotated: string(names)}},
		"spec": map[string]any{"driver": map[string]any{
			"name": driverName, "nodeID": node, "endpoint": "none: the storage is told directly"}},
		"status": map[string]any{"state": "Connected", "networkFenceClientStatus": known,
			"capabilities": []any{"network_fence.NETWORK_FENCE", "network_fence.GET_CLIENTS_TO_FENCE"}},
	}}, nil
}

// write makes it, or brings what is found up to date.
func (a *addons) write(ctx context.Context, object *unstructured.Unstructured, found unstructured.Unstructured, ok bool) error {
	kind := a.client.Resource(clientKind).Namespace(addonsNamespace)
	if !ok {
		made, err := kind.Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		found = *made
	}
	if annotations := object.GetAnnotations(); !reflect.DeepEqual(found.GetAnnotations(), annotations) {
		err := a.patch(ctx, kind, object.GetName(), map[string]any{"metadata": map[string]any{"annotations": annotations}})
		if err != nil {
			return err
		}
	}
	if reflect.DeepEqual(found.Object["status"], object.Object["status"]) {
		return nil
	}
	return a.patch(ctx, kind, object.GetName(), map[string]any{"status": object.Object["status"]}, "status")
}

func (a *addons) patch(ctx context.Context, kind dynamic.ResourceInterface, name string, change any, part ...string) error {
	data, err := json.Marshal(change)
	if err == nil {
		_, err = kind.Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{}, part...)
	}
	return err
}
