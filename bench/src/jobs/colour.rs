//! The colours of the Mandelbrot picture.
//!
//! Light is added up as linear light and converted to the picture file's sRGB only at the end;
//! averaging sRGB values would make every fine structure too dark.

/// Colour stops of the palette: position and sRGB colour.
const STOPS: [(f64, [u8; 3]); 6] = [
    (0.0, [3, 8, 40]),
    (0.2, [16, 72, 170]),
    (0.42, [226, 244, 255]),
    (0.6425, [255, 178, 40]),
    (0.8575, [96, 18, 30]),
    (1.0, [3, 8, 40]),
];

/// Size of the table, so large that neighbours differ by less than one step of a byte.
const ENTRIES: usize = 4096;

/// Direction of the lamp: above left, well in front of the picture.
const LAMP: (f64, f64) = (-std::f64::consts::FRAC_1_SQRT_2, std::f64::consts::FRAC_1_SQRT_2);
const LAMP_HEIGHT: f64 = 2.4;

/// Linear light, red, green and blue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Light([f64; 3]);

impl Light {
    /// Converts from a picture file's sRGB.
    fn from_srgb(bytes: [u8; 3]) -> Self {
        Self(bytes.map(|byte| {
            let value = f64::from(byte) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        }))
    }

    /// Adds other light.
    pub(crate) fn add(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Returns the sRGB colour of this light divided by `parts`.
    pub(crate) fn to_srgb(self, parts: f64) -> [u8; 3] {
        self.0.map(|light| {
            let light = (light / parts).clamp(0.0, 1.0);
            let value = if light <= 0.003_130_8 {
                12.92 * light
            } else {
                1.055 * light.powf(1.0 / 2.4) - 0.055
            };
            (value * 255.0).round() as u8
        })
    }

    fn scaled(self, factor: f64) -> Self {
        Self(self.0.map(|light| light * factor))
    }

    /// Mixes a share of `other` with the rest of `self`.
    fn mixed(self, other: Self, share: f64) -> Self {
        let mut mixed = self.scaled(1.0 - share);
        mixed.add(other.scaled(share));
        mixed
    }
}

/// The colours of points that are not in the set.
pub(crate) struct Palette(Vec<Light>);

impl Palette {
    /// Makes the table.
    pub(crate) fn new() -> Self {
        Self((0..ENTRIES).map(|i| Self::between_stops(i as f64 / ENTRIES as f64)).collect())
    }

    fn between_stops(position: f64) -> Light {
        let after = STOPS.iter().position(|(at, _)| *at > position).unwrap_or(STOPS.len() - 1);
        let (low, high) = (STOPS[after - 1], STOPS[after]);
        let share = (position - low.0) / (high.0 - low.0);
        // Eased, so that no edge shows at a stop.
        let eased = share * share * (3.0 - 2.0 * share);
        Light::from_srgb(low.1).mixed(Light::from_srgb(high.1), eased)
    }

    /// Returns the light of a point that escaped after `count` steps, where the landscape leans
    /// to `normal`.
    ///
    /// The position in the palette grows with the logarithm of the count, since counts crowd
    /// towards the set.
    pub(crate) fn light(&self, count: f64, normal: (f64, f64)) -> Light {
        let position = (0.3 * ((count + 1.0).ln() - 1.0)).rem_euclid(1.0);
        let colour = self.0[(position * ENTRIES as f64) as usize % ENTRIES];
        let towards_lamp = normal.0 * LAMP.0 + normal.1 * LAMP.1;
        let brightness = (towards_lamp + LAMP_HEIGHT) / (1.0 + LAMP_HEIGHT);
        colour.scaled(brightness.max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_survives_the_way_through_light() {
        for byte in 0..=255 {
            assert_eq!(Light::from_srgb([byte; 3]).to_srgb(1.0), [byte; 3]);
        }
    }

    #[test]
    fn the_palette_has_no_edge_even_where_it_begins_again() {
        let palette = Palette::new();
        for i in 0..ENTRIES {
            let (a, b) = (palette.0[i].to_srgb(1.0), palette.0[(i + 1) % ENTRIES].to_srgb(1.0));
            assert!(a.iter().zip(b).all(|(a, b)| a.abs_diff(b) <= 1), "entry {i}: {a:?} {b:?}");
        }
    }
}
