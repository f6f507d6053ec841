package notleader.client;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeoutException;

/**
 * The HTTP API of one notleader. Every method throws {@link NotLeaderException} where notleader refuses or does not
 * answer. Safe for several threads.
 */
public final class NotLeader {
  private static final Duration ANSWER = Duration.ofSeconds(10);
  private static final ObjectMapper JSON = new ObjectMapper();

  // A proxy of the environment has no business with a test's own machine.
  private final HttpClient http =
      HttpClient.newBuilder()
          .version(HttpClient.Version.HTTP_1_1)
          .proxy(HttpClient.Builder.NO_PROXY)
          .connectTimeout(ANSWER)
          .build();
  private final URI admin;
  private final String token;

  /**
   * @param admin where the HTTP API is, say http://127.0.0.1:8474
   * @param token what it asks for; empty where it asks for none
   */
  public NotLeader(URI admin, String token) {
    if (!"http".equals(admin.getScheme()) && !"https".equals(admin.getScheme())) {
      throw new IllegalArgumentException(admin + " is no http:// address of a notleader");
    }
    this.admin = admin;
    this.token = token;
  }

  /** The notleader that NOTLEADER_ADMIN (HOST:PORT or a URL) and NOTLEADER_TOKEN name, if they do. */
  public static Optional<NotLeader> fromEnvironment() {
    String told = System.getenv().getOrDefault("NOTLEADER_ADMIN", "");
    if (told.isEmpty()) {
      return Optional.empty();
    }
    URI admin = URI.create(told.contains("://") ? told : "http://" + told);
    return Optional.of(new NotLeader(admin, System.getenv().getOrDefault("NOTLEADER_TOKEN", "")));
  }

  /** Adds a fault; what it is now. */
  public Rule add(Faults.Fault fault) {
    return read(call("POST", "/v1/faults", written(fault.asMap()), ANSWER), Rule.class);
  }

  /** Adds several faults, or none of them. */
  public List<Rule> add(List<? extends Faults.Fault> faults) {
    List<Map<String, Object>> documents = new ArrayList<>();
    faults.forEach(fault -> documents.add(fault.asMap()));
    return list(call("POST", "/v1/faults", written(documents), ANSWER));
  }

  /** Adds one fault or a list of them that is written as JSON. */
  public List<Rule> add(String json) {
    return list(call("POST", "/v1/faults", json, ANSWER));
  }

  /** All rules, in the order in which they are asked. */
  public List<Rule> rules() {
    return list(call("GET", "/v1/faults", null, ANSWER));
  }

  /** One rule. */
  public Rule rule(String name) {
    return read(call("GET", path(name), null, ANSWER), Rule.class);
  }

  /**
   * Waits until a rule was hit so many times.
   *
   * @throws TimeoutException where it was not, within the time; the message says how often it was
   */
  public Rule awaitHits(String name, long hits, Duration timeout) throws TimeoutException {
    String query = "/wait?hits=" + hits + "&timeout_ms=" + timeout.toMillis();
    HttpResponse<String> answer = send("GET", path(name) + query, null, timeout.plus(ANSWER));
    if (answer.statusCode() == 408) {
      throw new TimeoutException(problem(answer.body()));
    }
    return read(successful("GET " + path(name), answer), Rule.class);
  }

  /** Switches a rule off or on; it keeps its place and its counters. */
  public Rule enable(String name, boolean enabled) {
    return read(call("PATCH", path(name), "{\"enabled\": " + enabled + "}", ANSWER), Rule.class);
  }

  /** Lets go what a rule holds. */
  public void release(String name) {
    call("POST", path(name) + "/release", null, ANSWER);
  }

  /** Removes one rule. */
  public void remove(String name) {
    call("DELETE", path(name), null, ANSWER);
  }

  /** Removes all rules and ends all elections. */
  public void clear() {
    call("DELETE", "/v1/faults", null, ANSWER);
  }

  /** Where clients bootstrap, as HOST:PORT: the proxy's own listener. */
  public String bootstrapServers() {
    return read(call("GET", "/proxies/bootstrap", null, ANSWER), JsonNode.class).path("listen").asText();
  }

  private static String path(String name) {
    return "/v1/faults/" + URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20");
  }

  private String call(String method, String path, String body, Duration timeout) {
    return successful(method + " " + path, send(method, path, body, timeout));
  }

  private HttpResponse<String> send(String method, String path, String body, Duration timeout) {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(admin.resolve(path))
            .timeout(timeout)
            .header("Content-Type", "application/json")
            .method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(body));
    if (!token.isEmpty()) {
      request.header("Authorization", "Bearer " + token);
    }
    try {
      return http.send(request.build(), BodyHandlers.ofString());
    } catch (IOException error) {
      throw new NotLeaderException(0, "no notleader answers at " + admin + ": " + error, error);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new NotLeaderException(0, "interrupted while waiting for " + admin, error);
    }
  }

  private static String successful(String what, HttpResponse<String> answer) {
    if (answer.statusCode() / 100 != 2) {
      throw new NotLeaderException(answer.statusCode(), what + ": " + problem(answer.body()), null);
    }
    return answer.body();
  }

  /** What a problem document (RFC 9457) says: the detail, then each problem with its path. */
  private static String problem(String body) {
    JsonNode document;
    try {
      document = JSON.readTree(body);
    } catch (JsonProcessingException error) {
      return body;
    }
    StringBuilder told = new StringBuilder(document.path("detail").asText(body));
    for (JsonNode each : document.path("problems")) {
      String path = each.path("path").asText();
      told.append("\n  ").append(path.isEmpty() ? "(document)" : path);
      told.append(": ").append(each.path("message").asText());
    }
    return told.toString();
  }

  private static List<Rule> list(String body) {
    return body.startsWith("[") ? Arrays.asList(read(body, Rule[].class)) : List.of(read(body, Rule.class));
  }

  private static <T> T read(String body, Class<T> type) {
    try {
      return JSON.readValue(body, type);
    } catch (JsonProcessingException error) {
      throw new NotLeaderException(0, "what answered is no notleader: " + body, error);
    }
  }

  private static String written(Object document) {
    try {
      return JSON.writeValueAsString(document);
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException(error);
    }
  }
}
