import { Component, type ReactNode } from "react";
import { ErrorState } from "./PageState";

/** Shows what went wrong instead of a view that cannot be drawn. */
export class ErrorBoundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: null };

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override render(): ReactNode {
    if (!this.state.error) return this.props.children;
    return <ErrorState error={this.state.error} what="this view" retry={() => window.location.reload()} />;
  }
}
