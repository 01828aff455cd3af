import { ActionIcon, Menu, useMantineColorScheme, type MantineColorScheme } from "@mantine/core";
import { Icon, type IconName } from "../components/Icon";

const SCHEMES: { value: MantineColorScheme; label: string; icon: IconName }[] = [
  { value: "light", label: "Light", icon: "sun" },
  { value: "dark", label: "Dark", icon: "moon" },
  { value: "auto", label: "As the system", icon: "auto" },
];

export function ThemeSwitch() {
  const { colorScheme, setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const chosen = SCHEMES.find((scheme) => scheme.value === colorScheme) ?? SCHEMES[2]!;
  return (
    <Menu position="bottom-end" transitionProps={{ duration: 0 }}>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size={34} aria-label={`Theme: ${chosen.label}`}>
          <Icon name={chosen.icon} size={18} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {SCHEMES.map((scheme) => (
          <Menu.Item
            key={scheme.value}
            leftSection={<Icon name={scheme.icon} />}
            rightSection={scheme.value === colorScheme ? <Icon name="check" /> : null}
            onClick={() => setColorScheme(scheme.value)}
          >
            {scheme.label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
