#pragma once

namespace basalt::kube {

class Client;
class Counter;
class Credentials;
class EventRecorder;
class Expectations;
class FaultClient;
class Gauge;
class HealthServer;
class Histogram;
class InformerCore;
class LeaderElector;
class Metrics;
class Reflector;
class WatchStream;
struct ClientConfig;
struct Request;
struct Resource;
struct Response;
template <class T>
class Informer;

}  // namespace basalt::kube
