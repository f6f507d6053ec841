package notleader.client;

/** notleader refused a call, or gave no answer; the message has every problem with its place in the document. */
public class NotLeaderException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private final int status;

  NotLeaderException(int status, String message, Throwable cause) {
    super(message, cause);
    this.status = status;
  }

  /** The HTTP status of the answer; 0 where there was none. */
  public int status() {
    return status;
  }
}
