import { createTheme, MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { BrowserRouter } from "react-router";
import { LoginNeeded, ProblemError } from "./api/client";
import { App } from "./App";
import "./styles/mantine.css";
import "./styles/tokens.css";
import "./styles/base.css";

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      retry: (failures, error) =>
        !(error instanceof LoginNeeded) &&
        !(error instanceof ProblemError && error.problem.status >= 400) &&
        failures < 2,
    },
  },
});

// The library's variables come from its style sheet and ours: no <style> element is made at run time.
const theme = createTheme({ cursorType: "pointer", respectReducedMotion: true });

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      withCssVariables={false}
      withGlobalClasses={false}
    >
      <QueryClientProvider client={queries}>
        <BrowserRouter>
          <App />
        </BrowserRouter>
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
