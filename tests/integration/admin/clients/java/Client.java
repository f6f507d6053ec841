import eu.rekawek.toxiproxy.Proxy;
import eu.rekawek.toxiproxy.ToxiproxyClient;
import eu.rekawek.toxiproxy.model.ToxicDirection;
import eu.rekawek.toxiproxy.model.toxic.Latency;
import eu.rekawek.toxiproxy.model.toxic.Slicer;
import java.io.IOException;
import java.net.Socket;
import java.util.List;

/** Drives the Toxiproxy API with toxiproxy-java: Client HOST PORT ECHO. */
public class Client {
  public static void main(String[] arguments) throws Exception {
    ToxiproxyClient client = new ToxiproxyClient(arguments[0], Integer.parseInt(arguments[1]));
    String echo = arguments[2];
    check(client.version().contains("\"version\""), client.version());
    Proxy proxy = client.createProxy("java", "127.0.0.1:0", echo);
    check(!proxy.getListen().endsWith(":0"), proxy.getListen());
    check(client.getProxyOrNull("nobody") == null, "nobody is there");
    check(client.getProxies().stream().anyMatch(each -> each.getName().equals("java")), "it is listed");
    refused(() -> client.createProxy("java", "127.0.0.1:0", echo), "[409] proxy already exists");
    refused(() -> client.getProxy("nobody"), "[404] proxy not found");

    Latency latency = proxy.toxics().latency("slow", ToxicDirection.DOWNSTREAM, 200).setJitter(0);
    check(ping(proxy) >= 200, "200 ms later");
    latency.setLatency(60_000).setToxicity(0);
    check(ping(proxy) < 60_000, "spared");
    check(proxy.toxics().get("slow", Latency.class).getLatency() == 60_000, "as it was set");
    refused(() -> proxy.toxics().latency("slow", ToxicDirection.UPSTREAM, 1), "[409] toxic already exists");
    refused(() -> proxy.toxics().get("fast"), "[404] toxic not found");
    latency.remove();

    proxy.toxics().bandwidth("bandwidth", ToxicDirection.UPSTREAM, 1000);
    proxy.toxics().slowClose("slow_close", ToxicDirection.DOWNSTREAM, 10);
    proxy.toxics().timeout("timeout", ToxicDirection.DOWNSTREAM, 50).setToxicity(0);
    proxy.toxics().resetPeer("reset_peer", ToxicDirection.UPSTREAM, 50).setToxicity(0);
    Slicer slicer = proxy.toxics().slicer("slicer", ToxicDirection.DOWNSTREAM, 2, 10).setSizeVariation(1);
    check(slicer.getAverageSize() == 2 && slicer.getSizeVariation() == 1, "slicer");
    proxy.toxics().limitData("limit_data", ToxicDirection.DOWNSTREAM, 4);
    List<String> names = proxy.toxics().getAll().stream().map(toxic -> toxic.getName()).sorted().toList();
    check(names.size() == 6, names.toString());
    ping(proxy);

    proxy.disable();
    try (Socket none = connected(proxy)) {
      throw new AssertionError("a disabled proxy accepted a connection");
    } catch (IOException refused) {
      check(!client.getProxy("java").isEnabled(), "disabled");
    }
    client.reset();
    check(client.getProxy("java").isEnabled() && proxy.toxics().getAll().isEmpty(), "reset");
    String before = proxy.getListen();
    proxy.setListen("127.0.0.1:0");
    check(!proxy.getListen().equals(before), "it has moved");
    proxy.setUpstream(echo);
    ping(proxy);
    proxy.delete();
    check(client.getProxyOrNull("java") == null, "it is gone");
    System.out.println("OK");
  }

  interface Call {
    void run() throws IOException;
  }

  static void refused(Call call, String text) {
    try {
      call.run();
    } catch (IOException error) {
      check(error.getMessage().equals(text), error.getMessage());
      return;
    }
    throw new AssertionError(text + " was expected");
  }

  static Socket connected(Proxy proxy) throws IOException {
    String[] address = proxy.getListen().split(":");
    return new Socket(address[0], Integer.parseInt(address[1]));
  }

  static long ping(Proxy proxy) throws IOException {
    try (Socket socket = connected(proxy)) {
      long began = System.nanoTime();
      socket.getOutputStream().write("ping".getBytes());
      check(socket.getInputStream().read() == 'p', "an echo");
      return (System.nanoTime() - began) / 1_000_000;
    }
  }

  static void check(boolean holds, String text) {
    if (!holds) {
      throw new AssertionError(text);
    }
  }
}
