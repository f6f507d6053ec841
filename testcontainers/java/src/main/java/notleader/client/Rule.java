package notleader.client;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;

/** A fault that is in force, and what has become of it. */
@JsonIgnoreProperties(ignoreUnknown = true)
public final class Rule {
  private final String name;
  private final String kind;
  private final long hits;
  private final boolean enabled;
  private final boolean exhausted;
  private final boolean released;

  @JsonCreator
  Rule(
      @JsonProperty("name") String name,
      @JsonProperty("kind") String kind,
      @JsonProperty("hits") long hits,
      @JsonProperty("enabled") boolean enabled,
      @JsonProperty("exhausted") boolean exhausted,
      @JsonProperty("released") boolean released) {
    this.name = name;
    this.kind = kind;
    this.hits = hits;
    this.enabled = enabled;
    this.exhausted = exhausted;
    this.released = released;
  }

  /** Its name, which the server gives where the fault has none. */
  public String name() {
    return name;
  }

  /** Which kind of fault it is. */
  public String kind() {
    return kind;
  }

  /** How often it struck. */
  public long hits() {
    return hits;
  }

  /** Whether it may strike; {@link NotLeader#enable} switches it off and on. */
  public boolean isEnabled() {
    return enabled;
  }

  /** Whether it cannot strike any more. */
  public boolean isExhausted() {
    return exhausted;
  }

  /** Whether what it held was let go. */
  public boolean isReleased() {
    return released;
  }

  @Override
  public String toString() {
    return name + " (" + kind + "), hits: " + hits;
  }
}
