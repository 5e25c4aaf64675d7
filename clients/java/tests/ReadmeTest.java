import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.rushgate.ClaimOptions;
import dev.rushgate.Content;
import dev.rushgate.Rushgate;
import dev.rushgate.TaskState;
import java.io.StringWriter;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ReadmeTest extends Suite {
    private static final Pattern EXAMPLE = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);
    @TempDir
    Path classes;

    /** Runs an example of the README with unique names. Returns what it prints. */
    private String run(Supplier<Rushgate> connect, String example, String queue) throws Exception {
        String body = example.replace("Rushgate.connect(\"redis://127.0.0.1:6379\")", "connect.get()")
                .replace("\"mail\"", "\"" + queue + "\"").replace("\"phones\"", "\"" + Target.unique("phones") + "\"")
                .replace("System.out.println", "out.accept").replace("System.out::println", "line -> out.accept(line)");
        // Only the first example connects. A worker runs until the end of the example.
        String before = body.contains("Rushgate client") ? "" : "Rushgate client = connect.get();";
        String after = body.contains("worker.start()") ? "client.queue(\"" + queue + "\").waitFor(\"later\", Duration.ofSeconds(30))"
                + ".orElseThrow(); worker.stop(); out.accept(running.join());" : "";
        compile(classes, "import dev.rushgate.*; import java.time.Duration; import java.util.List; import java.util.Map;"
                + "import java.util.concurrent.CompletableFuture; import java.util.function.*; public class Example {"
                + "public static void run(Supplier<Rushgate> connect, Consumer<Object> out) throws Exception {"
                + before + body + after + "}}");
        StringBuffer printed = new StringBuffer();
        Consumer<Object> out = line -> printed.append(line).append('\n');
        try (URLClassLoader loader = new URLClassLoader(new URL[] {classes.toUri().toURL()}, ReadmeTest.class.getClassLoader())) {
            loader.loadClass("Example").getMethod("run", Supplier.class, Consumer.class).invoke(null, connect, out);
        }
        return printed.toString();
    }

    private static void compile(Path classes, String source) {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        assertNotNull(compiler);
        JavaFileObject file = new SimpleJavaFileObject(URI.create("string:///Example.java"), JavaFileObject.Kind.SOURCE) {
            @Override
            public CharSequence getCharContent(boolean ignore) {
                return source;
            }
        };
        StringWriter output = new StringWriter();
        List<String> options = List.of("-d", classes.toString(), "-cp", System.getProperty("java.class.path"));
        assertTrue(compiler.getTask(output, null, null, options, null, List.of(file)).call(), output.toString());
    }

    @Test
    void theExamplesOfTheReadmeRun() throws Exception {
        List<String> examples = EXAMPLE.matcher(Files.readString(Path.of("README.md"))).results()
                .map(example -> example.group(1)).toList();
        assertEquals(5, examples.size());
        String first = run(target::connect, examples.get(0), Target.unique("mail"));
        assertTrue(Pattern.matches("fencing token \\d+\nsent \\{text=Welcome\\} in attempt 1\n", first), first);
        assertEquals("", run(() -> client, examples.get(1), ""));
        String queue = Target.unique("mail");
        assertTrue(run(() -> client, examples.get(2), queue).startsWith("WaitsFor[left=2"));
        client.queue(queue).claim(ClaimOptions.DEFAULTS).get(0).complete();
        assertEquals(TaskState.SCHEDULED, client.queue(queue).task("later").orElseThrow().state());
        client.queue(queue).cancel("later");
        client.queue(queue).enqueue("later", Content.empty().withKind("welcome"));
        assertTrue(run(() -> client, examples.get(3), queue).startsWith("WorkerReport["));
        assertEquals("sent in attempt 1", client.queue(queue).task("later").orElseThrow().finished().result().json());
        assertEquals("sold\n", run(() -> client, examples.get(4), ""));
    }
}
