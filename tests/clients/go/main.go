// Command clients uses an API server as Go operators do: typed clients in protobuf, informers, server-side apply
// and a controller of controller-runtime. Each check prints a line; the first failure ends the program.
//
// The cluster is that of KUBECONFIG. All objects are in a namespace of their own, which is deleted at the end.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const deadline = 30 * time.Second

func main() {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	check("read the kubeconfig", err)
	config.QPS = -1
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()

	typed := rest.CopyConfig(config)
	typed.ContentType = runtime.ContentTypeProtobuf
	clients := kubernetes.NewForConfigOrDie(typed)
	namespace, err := clients.CoreV1().Namespaces().Create(
		ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "go-client-"}}, metav1.CreateOptions{})
	check("create a namespace", err)

	pods(ctx, clients, namespace.Name)
	jobs(ctx, clients, namespace.Name)
	apply(ctx, clients, namespace.Name)
	partialMetadata(ctx, typed, namespace.Name)
	controller(ctx, config, namespace.Name)

	background := metav1.DeletePropagationBackground
	check("delete the namespace", clients.CoreV1().Namespaces().Delete(
		ctx, namespace.Name, metav1.DeleteOptions{PropagationPolicy: &background}))
}

// pods creates, watches, updates, evicts and deletes a pod whose specification has parts of many types.
func pods(ctx context.Context, clients kubernetes.Interface, namespace string) {
	pods := clients.CoreV1().Pods(namespace)
	watch, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=full"})
	check("watch pods", err)
	defer watch.Stop()

	wanted := fullPod()
	created, err := pods.Create(ctx, wanted, metav1.CreateOptions{})
	check("create a pod", err)
	same("affinity", wanted.Spec.Affinity, created.Spec.Affinity)
	same("topologySpreadConstraints", wanted.Spec.TopologySpreadConstraints, created.Spec.TopologySpreadConstraints)
	same("schedulingGates", wanted.Spec.SchedulingGates, created.Spec.SchedulingGates)
	same("securityContext", wanted.Spec.SecurityContext, created.Spec.SecurityContext)
	same("volumes", wanted.Spec.Volumes, created.Spec.Volumes[:len(wanted.Spec.Volumes)])
	same("volumeMounts", wanted.Spec.Containers[0].VolumeMounts,
		created.Spec.Containers[0].VolumeMounts[:len(wanted.Spec.Containers[0].VolumeMounts)])
	same("resources", wanted.Spec.Containers[0].Resources, created.Spec.Containers[0].Resources)
	same("httpGet", wanted.Spec.Containers[0].LivenessProbe.HTTPGet.Port,
		created.Spec.Containers[0].LivenessProbe.HTTPGet.Port)

	added := next(watch.ResultChan())
	same("the watched pod", created, added)

	created.Status.Phase = corev1.PodRunning
	created.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "True", LastTransitionTime: metav1.Unix(1e9, 0)}}
	updated, err := pods.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	check("update the status of a pod", err)
	same("the conditions", created.Status.Conditions, updated.Status.Conditions)
	same("the changed pod", updated, next(watch.ResultChan()))

	listed, err := pods.List(ctx, metav1.ListOptions{})
	check("list pods", err)
	same("the listed pod", *updated, listed.Items[0])

	_, err = pods.Create(ctx, wanted, metav1.CreateOptions{})
	expect("a second pod of the same name already exists", apierrors.IsAlreadyExists(err), err)
	invalid := fullPod()
	invalid.Spec.Containers[0].Name = ""
	_, err = pods.Create(ctx, invalid, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	expect("an invalid pod has causes",
		apierrors.IsInvalid(err) && len(err.(apierrors.APIStatus).Status().Details.Causes) > 0, err)

	other := types.UID("other")
	err = pods.Delete(ctx, "full", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	expect("a deletion with another UID is a conflict", apierrors.IsConflict(err), err)
	check("evict a pod", pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "full"}}))
	for event := range watch.ResultChan() {
		if event.Type == "DELETED" {
			break
		}
	}
	_, err = pods.Get(ctx, "full", metav1.GetOptions{})
	expect("an evicted pod is not found", apierrors.IsNotFound(err), err)
}

func fullPod() *corev1.Pod {
	no, id, grace := false, int64(1000), int64(0)
	pod := &corev1.Pod{}
	pod.Name = "full"
	pod.Spec = corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: &grace,
		SchedulingGates:               []corev1.PodSchedulingGate{{Name: "example.com/gate"}},
		SecurityContext:               &corev1.PodSecurityContext{RunAsUser: &id, SupplementalGroups: []int64{1, 2}},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "none", Operator: "Exists"}},
			}}},
		}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: "DoNotSchedule",
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Containers: []corev1.Container{{
			Name: "c", Image: "busybox",
			VolumeMounts:    []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no},
			LivenessProbe: &corev1.Probe{PeriodSeconds: 7, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)},
			}},
		}},
	}
	return pod
}

// jobs creates a job with failure policies and deletes it with a propagation policy.
func jobs(ctx context.Context, clients kubernetes.Interface, namespace string) {
	jobs := clients.BatchV1().Jobs(namespace)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job"}}
	suspend := true
	job.Spec = batchv1.JobSpec{
		Suspend: &suspend,
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action:      batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{42}},
		}}},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "busybox"}},
		}},
	}
	created, err := jobs.Create(ctx, job, metav1.CreateOptions{})
	check("create a job", err)
	same("podFailurePolicy", job.Spec.PodFailurePolicy.Rules[0].OnExitCodes, created.Spec.PodFailurePolicy.Rules[0].OnExitCodes)
	background := metav1.DeletePropagationBackground
	check("delete a job", jobs.Delete(ctx, "job", metav1.DeleteOptions{PropagationPolicy: &background}))
}

// apply applies a config map twice and forces a conflict.
func apply(ctx context.Context, clients kubernetes.Interface, namespace string) {
	maps := clients.CoreV1().ConfigMaps(namespace)
	for _, manager := range []string{"one", "one"} {
		_, err := maps.Apply(ctx, coreapply.ConfigMap("applied", namespace).WithData(map[string]string{"k": "v"}),
			metav1.ApplyOptions{FieldManager: manager})
		check("apply a config map", err)
	}
	_, err := maps.Apply(ctx, coreapply.ConfigMap("applied", namespace).WithData(map[string]string{"k": "w"}),
		metav1.ApplyOptions{FieldManager: "two"})
	expect("a field of another manager is a conflict", apierrors.IsConflict(err), err)
}

// partialMetadata lists and watches the metadata of objects, in protobuf.
func partialMetadata(ctx context.Context, config *rest.Config, namespace string) {
	resource := metadata.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	listed, err := resource.Namespace(namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=applied"})
	check("list metadata", err)
	same("the listed name", "applied", listed.Items[0].Name)
	watch, err := resource.Namespace(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=applied"})
	check("watch metadata", err)
	defer watch.Stop()
	same("the watched metadata", listed.Items[0].ObjectMeta, next(watch.ResultChan()).(*metav1.PartialObjectMetadata).ObjectMeta)
}

// controller runs a manager of controller-runtime that creates a secret for each config map with a label, and
// reads custom resource definitions, without a type, from the same cache.
func controller(ctx context.Context, config *rest.Config, namespace string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	check("create a manager", err)
	cached := manager.GetClient()
	reconcile := func(ctx context.Context, source *corev1.ConfigMap) (ctrl.Result, error) {
		if source.Labels["copy"] == "" || source.DeletionTimestamp != nil {
			return ctrl.Result{}, nil
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: source.Name, Namespace: source.Namespace}}
		if err := ctrl.SetControllerReference(source, secret, scheme.Scheme); err != nil {
			return ctrl.Result{}, err
		}
		secret.StringData = source.Data
		return ctrl.Result{}, client.IgnoreAlreadyExists(cached.Create(ctx, secret))
	}
	check("create a controller", ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
		Complete(reconcileFunc(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
			source := &corev1.ConfigMap{}
			if err := cached.Get(ctx, request.NamespacedName, source); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			return reconcile(ctx, source)
		})))
	go func() { check("run the manager", manager.Start(ctx)) }()
	if !manager.GetCache().WaitForCacheSync(ctx) {
		check("fill the cache", ctx.Err())
	}
	source := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "source", Namespace: namespace, Labels: map[string]string{"copy": "yes"}},
		Data:       map[string]string{"k": "ü"},
	}
	check("create a config map", cached.Create(ctx, source))
	copied := &corev1.Secret{}
	check("see the secret of the controller", wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, deadline, true,
		func(ctx context.Context) (bool, error) {
			err := cached.Get(ctx, client.ObjectKeyFromObject(source), copied)
			return err == nil, client.IgnoreNotFound(err)
		}))
	same("the data of the secret", "ü", string(copied.Data["k"]))
	check("patch a config map", cached.Patch(ctx, source, client.RawPatch(types.MergePatchType, []byte(`{"data":{"l":"m"}}`))))
	definitions := &unstructured.UnstructuredList{}
	definitions.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	check("list custom resource definitions", cached.List(ctx, definitions))
}

type reconcileFunc func(context.Context, ctrl.Request) (ctrl.Result, error)

func (f reconcileFunc) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return f(ctx, request)
}

func next[E any](events <-chan E) runtime.Object {
	select {
	case event := <-events:
		return reflect.ValueOf(event).FieldByName("Object").Interface().(runtime.Object)
	case <-time.After(deadline):
		check("wait for an event", fmt.Errorf("none in %s", deadline))
		return nil
	}
}

func same(what string, wanted, got any) {
	expect(what+" is kept", reflect.DeepEqual(wanted, got), fmt.Errorf("wanted %+v, got %+v", wanted, got))
}

func expect(what string, holds bool, problem error) {
	if holds {
		problem = nil
	} else if problem == nil {
		problem = fmt.Errorf("no error")
	}
	check(what, problem)
}

func check(what string, problem error) {
	if problem != nil {
		fmt.Printf("FAILED %s: %v\n", what, problem)
		os.Exit(1)
	}
	fmt.Println("ok", what)
}
